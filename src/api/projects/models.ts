import { DataTypes, Model } from 'sequelize';
import type { CreationOptional, InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';

/** The boundary every resource, credential check, bill and webhook belongs to. */
export class Project extends Model<InferAttributes<Project>, InferCreationAttributes<Project>> {
  declare id: string;
  /** Creator and billing owner: plan and balance of this user apply to every member. */
  declare ownerUserId: string;
  /** Need not be unique. */
  declare name: string;
  declare status: CreationOptional<'active' | 'archived'>;
  /** Set while the project is paused. */
  declare pausedAt: CreationOptional<Date | null>;
  declare pauseReason: CreationOptional<string | null>;
  /** Orchestration runs executing at once; null = no limit. */
  declare maxConcurrentRuns: number | null;
  declare maxChainGenerations: number | null;
  declare maxOrchestrationRunDepth: number | null;
  /** Whether reads enter the audit log. */
  declare auditReadsEnabled: boolean;
  /** Whether the managed ingestion rules exist. */
  declare managedConversion: boolean;
  /** Refuse models without a price. */
  declare requirePricedModel: CreationOptional<boolean>;
  /** `none`: no content of generations and traces is kept. */
  declare traceContentMode: CreationOptional<'full' | 'none'>;
  /** Null = content is kept as long as its record. */
  declare traceContentRetentionDays: number | null;
  /** Set when the project is gone for everybody, and only its rows are still to be removed. */
  declare deletedAt: CreationOptional<Date | null>;
  declare createdAt: Date;
  declare updatedAt: Date;
}

Project.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    ownerUserId: { type: DataTypes.TEXT, allowNull: false },
    name: { type: DataTypes.TEXT, allowNull: false },
    status: { type: DataTypes.TEXT, allowNull: false, defaultValue: 'active' },
    pausedAt: { type: DataTypes.DATE(3) },
    pauseReason: { type: DataTypes.TEXT },
    maxConcurrentRuns: { type: DataTypes.INTEGER },
    maxChainGenerations: { type: DataTypes.INTEGER },
    maxOrchestrationRunDepth: { type: DataTypes.INTEGER },
    auditReadsEnabled: { type: DataTypes.BOOLEAN, allowNull: false },
    managedConversion: { type: DataTypes.BOOLEAN, allowNull: false },
    requirePricedModel: { type: DataTypes.BOOLEAN, allowNull: false, defaultValue: false },
    traceContentMode: { type: DataTypes.TEXT, allowNull: false, defaultValue: 'full' },
    traceContentRetentionDays: { type: DataTypes.INTEGER },
    deletedAt: { type: DataTypes.DATE(3) },
    createdAt: { type: DataTypes.DATE(3), allowNull: false },
    updatedAt: { type: DataTypes.DATE(3), allowNull: false },
  },
  { sequelize: db, modelName: 'project', tableName: 'projects', underscored: true, timestamps: false },
);
