import { DataTypes, Model } from 'sequelize';
import type { InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';

/** A long-lived credential that acts as its user. */
export class ApiKey extends Model<InferAttributes<ApiKey>, InferCreationAttributes<ApiKey>> {
  declare id: string;
  declare userId: string;
  /** The one project the key reaches; null = every project of its user. */
  declare projectId: string | null;
  declare name: string;
  /** SHA-256 of the whole secret; the secret itself is nowhere. */
  declare keyHash: Buffer;
  /** First 12 characters of the secret, by which a person recognises it. */
  declare keyPrefix: string;
  /** Refreshed at most once a minute, after the response. */
  declare lastUsedAt: Date | null;
  declare createdAt: Date;
  /** Changes with the name and with a rotation. */
  declare updatedAt: Date;
}

ApiKey.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    userId: { type: DataTypes.TEXT, allowNull: false },
    projectId: { type: DataTypes.TEXT },
    name: { type: DataTypes.TEXT, allowNull: false },
    keyHash: { type: DataTypes.BLOB, allowNull: false },
    keyPrefix: { type: DataTypes.TEXT, allowNull: false },
    lastUsedAt: { type: DataTypes.DATE(3) },
    createdAt: { type: DataTypes.DATE(3), allowNull: false },
    updatedAt: { type: DataTypes.DATE(3), allowNull: false },
  },
  { sequelize: db, modelName: 'apiKey', tableName: 'api_keys', underscored: true, timestamps: false },
);
