import { DataTypes, Model } from 'sequelize';
import type { InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';

/** Why the last generation that failed in a trace failed. */
export interface TraceError {
  code?: string;
  message: string;
  meta?: Record<string, unknown>;
}

/** What one agent did in one or more turns. Written by generations (`steps.ts`, `settlement.ts`) and purges. */
export class Trace extends Model<InferAttributes<Trace>, InferCreationAttributes<Trace>> {
  declare id: string;
  declare projectId: string;
  /** Agent of the first generation. */
  declare agentId: string;
  /** Steps of all its generations; survives a purge. */
  declare stepCount: number;
  /** Trace of the immediate caller; null = root. */
  declare parentTraceId: string | null;
  /** Top of the tree; null = this is the root. */
  declare rootTraceId: string | null;
  /** Run whose node or whose start made it. */
  declare orchestrationRunId: string | null;
  declare error: TraceError | null;
  declare contentRedactedAt: Date | null;
  declare contentRedactedByPrincipalType: string | null;
  declare contentRedactedByPrincipalId: string | null;
  declare createdAt: Date;
  declare updatedAt: Date;
}

Trace.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: { type: DataTypes.TEXT, allowNull: false },
    agentId: { type: DataTypes.TEXT, allowNull: false },
    stepCount: { type: DataTypes.INTEGER, allowNull: false },
    parentTraceId: { type: DataTypes.TEXT },
    rootTraceId: { type: DataTypes.TEXT },
    orchestrationRunId: { type: DataTypes.TEXT },
    error: { type: DataTypes.JSON },
    contentRedactedAt: { type: DataTypes.DATE(3) },
    contentRedactedByPrincipalType: { type: DataTypes.TEXT },
    contentRedactedByPrincipalId: { type: DataTypes.TEXT },
    createdAt: { type: DataTypes.DATE(3), allowNull: false },
    updatedAt: { type: DataTypes.DATE(3), allowNull: false },
  },
  { sequelize: db, modelName: 'trace', tableName: 'traces', underscored: true, timestamps: false },
);
