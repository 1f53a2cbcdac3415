import { DataTypes, Model } from 'sequelize';
import type { InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';

/** A person's account, proven by its address. */
export class User extends Model<InferAttributes<User>, InferCreationAttributes<User>> {
  declare id: string;
  /** Normalised; the account is this address. */
  declare email: string;
  declare name: string | null;
  declare emailVerified: boolean;
  /** Platform roles; the catalog holds `admin`. */
  declare roles: string[];
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
    createdAt: { type: DataTypes.DATE(3), allowNull: false },
    updatedAt: { type: DataTypes.DATE(3), allowNull: false },
  },
  { sequelize: db, modelName: 'user', tableName: 'users', underscored: true, timestamps: false },
);
