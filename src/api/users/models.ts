import { DataTypes, Model } from 'sequelize';
import type { CreationOptional, InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';
import type { RungName } from '../core/ladder';

/** A person's account, proven by its address. */
export class User extends Model<InferAttributes<User>, InferCreationAttributes<User>> {
  declare id: string;
  /** Normalised; the account is this address. */
  declare email: string;
  declare name: string | null;
  declare emailVerified: boolean;
  /** Platform roles; the catalog holds `admin`. */
  declare roles: string[];
  /** As the newest line of its plan history says. */
  declare plan: CreationOptional<RungName>;
  /** A lower plan that waits for the turn of the month. */
  declare nextPlan: CreationOptional<RungName | null>;
  /** Retention ceiling of the contract; on the highest rung only. */
  declare retentionDays: CreationOptional<number | null>;
  /** A decimal, as the database writes it. */
  declare balanceUsd: CreationOptional<string>;
  declare createdAt: Date;
  declare updatedAt: Date;
}

User.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    email: { type: DataTypes.TEXT, allowNull: false },
    name: { type: DataTypes.TEXT },
    emailVerified: { type: DataTypes.BOOLEAN, allowNull: false },
    roles: { type: DataTypes.ARRAY(DataTypes.TEXT), allowNull: false },
    plan: { type: DataTypes.TEXT, allowNull: false, defaultValue: 'free' },
    nextPlan: { type: DataTypes.TEXT },
    retentionDays: { type: DataTypes.INTEGER },
    balanceUsd: { type: DataTypes.DECIMAL(20, 12), allowNull: false, defaultValue: 0 },
    createdAt: { type: DataTypes.DATE(3), allowNull: false },
    updatedAt: { type: DataTypes.DATE(3), allowNull: false },
  },
  { sequelize: db, modelName: 'user', tableName: 'users', underscored: true, timestamps: false },
);
