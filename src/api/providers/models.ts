import { DataTypes, Model } from 'sequelize';
import type { InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';
import type { StoredConfig, Vendor } from './vendors';

/** A vendor of models and how to reach it. */
export class AiProvider extends Model<InferAttributes<AiProvider>, InferCreationAttributes<AiProvider>> {
  declare id: string;
  declare projectId: string;
  declare name: string;
  declare provider: Vendor;
  /** The vendor's own model id; serves agents that name no model. */
  declare defaultModel: string;
  /** The credential; null = `config.apiKey`, or calls carry none. */
  declare secretId: string | null;
  /** Where the vendor's interface stands; null = the vendor's own address. */
  declare baseUrl: string | null;
  /** Settings of the vendor; a key written out in them stands as `{"no_echo": true}`. */
  declare config: StoredConfig | null;
  /** Which deployment key encrypted the literals; null = there are none. */
  declare literalsKeyId: string | null;
  /** Ciphertext of what was written out in `config`: JSON of `{apiKey}`. */
  declare literalsData: Buffer | null;
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
    config: DataTypes.JSON,
    literalsKeyId: DataTypes.TEXT,
    literalsData: DataTypes.BLOB,
    createdAt: DataTypes.DATE(3),
    updatedAt: DataTypes.DATE(3),
  },
  { sequelize: db, modelName: 'aiProvider', tableName: 'ai_providers', timestamps: false, underscored: true },
);
