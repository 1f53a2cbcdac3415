import { DataTypes, Model } from 'sequelize';
import type { InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';
import type { RungName } from '../core/ladder';

/** One line of an account's plan history: never changed; the newest one is its plan. */
export class PlanLine extends Model<InferAttributes<PlanLine>, InferCreationAttributes<PlanLine>> {
  declare id: string;
  declare userId: string;
  declare plan: RungName;
  /** On the highest rung only. */
  declare retentionDays: number | null;
  declare reason: string | null;
  declare grantedByUserId: string | null;
  declare effectiveAt: Date;
  /** Rises from line to line of an account. */
  declare createdAt: Date;
}

PlanLine.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    userId: { type: DataTypes.TEXT, allowNull: false },
    plan: { type: DataTypes.TEXT, allowNull: false },
    retentionDays: { type: DataTypes.INTEGER },
    reason: { type: DataTypes.TEXT },
    grantedByUserId: { type: DataTypes.TEXT },
    effectiveAt: { type: DataTypes.DATE(3), allowNull: false },
    createdAt: { type: DataTypes.DATE(3), allowNull: false },
  },
  { sequelize: db, modelName: 'planLine', tableName: 'plan_lines', underscored: true, timestamps: false },
);
