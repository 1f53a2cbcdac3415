import { DataTypes, Model } from 'sequelize';
import type { CreationOptional, InferAttributes, InferCreationAttributes } from 'sequelize';
import type { Role } from '../core/access';
import { db } from '../core/db';

/** Who may act in a project: an address and its role there. */
export class ProjectMember extends Model<InferAttributes<ProjectMember>, InferCreationAttributes<ProjectMember>> {
  declare id: string;
  declare projectId: string;
  /** Null until somebody signs in with the address. */
  declare userId: string | null;
  /** Normalised; unique in the project. */
  declare email: string;
  declare role: Role;
  /** Null on the founding owner. */
  declare invitedByUserId: string | null;
  /** Null while the mail to the address is due. */
  declare runSeenAt: CreationOptional<Date | null>;
  declare createdAt: Date;
  /** Changes with the role, and when the address signs in for the first time. */
  declare updatedAt: Date;
}

ProjectMember.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: { type: DataTypes.TEXT, allowNull: false },
    userId: { type: DataTypes.TEXT },
    email: { type: DataTypes.TEXT, allowNull: false },
    role: { type: DataTypes.TEXT, allowNull: false },
    invitedByUserId: { type: DataTypes.TEXT },
    runSeenAt: { type: DataTypes.DATE(3) },
    createdAt: { type: DataTypes.DATE(3), allowNull: false },
    updatedAt: { type: DataTypes.DATE(3), allowNull: false },
  },
  { sequelize: db, modelName: 'projectMember', tableName: 'project_members', underscored: true, timestamps: false },
);
