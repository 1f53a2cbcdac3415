import { DataTypes, Model } from 'sequelize';
import type { Attributes, CreationOptional, InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';
import type { ContentMode } from './sealing';

export const generationStatuses = ['in_progress', 'requires_action', 'completed', 'failed'] as const;
export type GenerationStatus = (typeof generationStatuses)[number];

/** Why a run failed, as its record shows it. */
export interface GenerationError {
  code: string;
  message: string;
  meta?: Record<string, unknown>;
}

export class Generation extends Model<InferAttributes<Generation>, InferCreationAttributes<Generation>> {
  declare id: string;
  declare projectId: string;
  declare agentId: string;
  /** The version that serves the run, fixed when it was accepted. */
  declare agentVersion: number;
  declare traceId: string;
  declare status: GenerationStatus;
  declare stopReason: CreationOptional<string | null>;
  declare error: CreationOptional<GenerationError | null>;
  /** Number of the last pause; 0 = never paused. */
  declare pause: CreationOptional<number>;
  declare stepCount: CreationOptional<number>;
  /** Bytes of messages, answers and results so far; a run has a limit of them. */
  declare contentBytes: CreationOptional<number>;
  declare aiProviderId: CreationOptional<string | null>;
  declare model: CreationOptional<string | null>;
  declare inputTokens: CreationOptional<number>;
  declare outputTokens: CreationOptional<number>;
  declare cachedTokens: CreationOptional<number>;
  declare costUsd: CreationOptional<string | null>;
  /** Generation that called or continued into this one. */
  declare initiatorGenerationId: CreationOptional<string | null>;
  declare actionId: string | null;
  declare metadata: Record<string, unknown> | null;
  declare streamed: CreationOptional<boolean>;
  /** How many runs deep this one may call others. */
  declare maxCallDepth: CreationOptional<number>;
  /** Whether a caller waits for the answer. */
  declare awaited: CreationOptional<boolean>;
  /** `none`: content goes with the settlement. */
  declare contentMode: CreationOptional<ContentMode>;
  declare idempotencyKey: string | null;
  /** What the key was claimed for: the same request answers this record, another one is refused. */
  declare requestHash: Buffer | null;
  declare startedByPrincipalType: string | null;
  declare startedByPrincipalId: string | null;
  declare requestId: string | null;
  /** When the run's first activity saw the row; null = its start may have been lost. */
  declare runSeenAt: CreationOptional<Date | null>;
  declare startedAt: CreationOptional<Date | null>;
  declare completedAt: CreationOptional<Date | null>;
  declare lastActivityAt: CreationOptional<Date | null>;
  declare contentRedactedAt: CreationOptional<Date | null>;
  declare contentRedactedByPrincipalType: CreationOptional<string | null>;
  declare contentRedactedByPrincipalId: CreationOptional<string | null>;
  declare createdAt: Date;
  declare updatedAt: Date;
}

/** A row as it is read: the attributes alone, since making an instance costs more than reading it. */
export type GenerationRow = Attributes<Generation>;

/** Whether a run is over. */
export const isSettled = ({ status }: Pick<GenerationRow, 'status'>): boolean =>
  status === 'completed' || status === 'failed';

/** Sequelize writes into the definitions that it is given: each column gets one of its own. */
const date = () => ({ type: DataTypes.DATE(3) });

/** bigint columns; the counts in them stay far below what a number carries. */
const bigCount = () => ({ type: DataTypes.BIGINT, defaultValue: 0 });

Generation.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: DataTypes.TEXT,
    agentId: DataTypes.TEXT,
    agentVersion: DataTypes.INTEGER,
    traceId: DataTypes.TEXT,
    status: DataTypes.TEXT,
    stopReason: DataTypes.TEXT,
    error: DataTypes.JSON,
    pause: { type: DataTypes.INTEGER, defaultValue: 0 },
    stepCount: { type: DataTypes.INTEGER, defaultValue: 0 },
    contentBytes: bigCount(),
    aiProviderId: DataTypes.TEXT,
    model: DataTypes.TEXT,
    inputTokens: bigCount(),
    outputTokens: bigCount(),
    cachedTokens: bigCount(),
    costUsd: DataTypes.DECIMAL(20, 12),
    initiatorGenerationId: DataTypes.TEXT,
    actionId: DataTypes.TEXT,
    metadata: DataTypes.JSON,
    streamed: { type: DataTypes.BOOLEAN, defaultValue: false },
    maxCallDepth: { type: DataTypes.INTEGER, defaultValue: 10 },
    awaited: { type: DataTypes.BOOLEAN, defaultValue: false },
    contentMode: { type: DataTypes.TEXT, defaultValue: 'full' },
    idempotencyKey: DataTypes.TEXT,
    requestHash: DataTypes.BLOB,
    startedByPrincipalType: DataTypes.TEXT,
    startedByPrincipalId: DataTypes.TEXT,
    requestId: DataTypes.TEXT,
    runSeenAt: date(),
    startedAt: date(),
    completedAt: date(),
    lastActivityAt: date(),
    contentRedactedAt: date(),
    contentRedactedByPrincipalType: DataTypes.TEXT,
    contentRedactedByPrincipalId: DataTypes.TEXT,
    createdAt: date(),
    updatedAt: date(),
  },
  { sequelize: db, modelName: 'generation', tableName: 'generations', timestamps: false, underscored: true },
);
