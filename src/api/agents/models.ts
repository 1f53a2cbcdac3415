import { DataTypes, Model } from 'sequelize';
import type { CreationOptional, InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';
import type { AgentConfig } from './schemas';

/** A stored configuration that generations run; the same document that its versions archive. */
export class Agent extends Model<InferAttributes<Agent>, InferCreationAttributes<Agent>> {
  declare id: string;
  declare projectId: string;
  /** Of the configuration, beside it for look-ups and the foreign key. */
  declare aiProviderId: string;
  /** Of the configuration, beside it for look-ups. */
  declare toolIds: string[];
  declare config: AgentConfig;
  /** The live version. */
  declare version: number;
  /** The highest number ever given; numbers are never used again. */
  declare lastVersion: number;
  declare createdAt: Date;
  declare updatedAt: Date;
}

Agent.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: DataTypes.TEXT,
    aiProviderId: DataTypes.TEXT,
    toolIds: DataTypes.ARRAY(DataTypes.TEXT),
    config: DataTypes.JSON,
    version: DataTypes.INTEGER,
    lastVersion: DataTypes.INTEGER,
    createdAt: DataTypes.DATE(3),
    updatedAt: DataTypes.DATE(3),
  },
  { sequelize: db, modelName: 'agent', tableName: 'agents', timestamps: false, underscored: true },
);

/** A configuration as it stood; written once. */
export class AgentVersion extends Model<InferAttributes<AgentVersion>, InferCreationAttributes<AgentVersion>> {
  declare id: string;
  declare projectId: string;
  declare agentId: string;
  declare version: number;
  declare config: AgentConfig;
  /** Given by the write that made it. */
  declare label: string | null;
  /** The run that cleared the gate of its promotion. */
  declare evalRunId: CreationOptional<string | null>;
  /** User who made it. */
  declare createdBy: string | null;
  declare createdAt: Date;
}

AgentVersion.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: DataTypes.TEXT,
    agentId: DataTypes.TEXT,
    version: DataTypes.INTEGER,
    config: DataTypes.JSON,
    label: DataTypes.TEXT,
    evalRunId: DataTypes.TEXT,
    createdBy: DataTypes.TEXT,
    createdAt: DataTypes.DATE(3),
  },
  { sequelize: db, modelName: 'agentVersion', tableName: 'agent_versions', timestamps: false, underscored: true },
);
