import { DataTypes, Model } from 'sequelize';
import type { CreationOptional, InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';

/** A named credential of a project; its value is written here and read only where a call needs it. */
export class Secret extends Model<InferAttributes<Secret>, InferCreationAttributes<Secret>> {
  declare id: string;
  declare projectId: string;
  /** Label; not unique. */
  declare name: string;
  /** Which deployment key encrypted the value. */
  declare valueKeyId: string;
  /** Nonce, tag and ciphertext of the value. */
  declare valueData: Buffer;
  declare createdAt: Date;
  declare updatedAt: CreationOptional<Date>;
}

Secret.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: DataTypes.TEXT,
    name: DataTypes.TEXT,
    valueKeyId: DataTypes.TEXT,
    valueData: DataTypes.BLOB,
    createdAt: DataTypes.DATE(3),
    updatedAt: DataTypes.DATE(3),
  },
  {
    sequelize: db,
    modelName: 'secret',
    tableName: 'secrets',
    timestamps: false,
    underscored: true,
    // Reads and lists have no use for the ciphertext; what needs the value asks `secretValues`.
    defaultScope: { attributes: { exclude: ['valueKeyId', 'valueData'] } },
  },
);
