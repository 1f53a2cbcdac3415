import { DataTypes, Model } from 'sequelize';
import type { InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';

/** The vendors this build has an adapter for. */
export const servedVendors = ['openai', 'custom'] as const;
export type Vendor = (typeof servedVendors)[number];

/** A vendor of models and how to reach it. */
export class AiProvider extends Model<InferAttributes<AiProvider>, InferCreationAttributes<AiProvider>> {
  declare id: string;
  declare projectId: string;
  declare name: string;
  declare provider: Vendor;
  /** The vendor's own model id; serves agents that name no model. */
  declare defaultModel: string;
  /** The key; null = calls carry none. */
  declare secretId: string | null;
  /** Where the vendor's interface stands; null = the vendor's own address. */
  declare baseUrl: string | null;
  declare createdAt: Date;
  declare updatedAt: Date;
}

AiProvider.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: DataTypes.TEXT,
    name: DataTypes.TEXT,
    provider: DataTypes.TEXT,
    defaultModel: DataTypes.TEXT,
    secretId: DataTypes.TEXT,
    baseUrl: DataTypes.TEXT,
    createdAt: DataTypes.DATE(3),
    updatedAt: DataTypes.DATE(3),
  },
  { sequelize: db, modelName: 'aiProvider', tableName: 'ai_providers', timestamps: false, underscored: true },
);
