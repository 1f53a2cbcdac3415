import { DataTypes, Model } from 'sequelize';
import type { InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';

/** The types of tools this build serves. */
export const servedTypes = ['http', 'client', 'mcp', 'pipeline'] as const;
export type ToolType = (typeof servedTypes)[number];

export const methods = ['GET', 'HEAD', 'DELETE', 'POST', 'PUT', 'PATCH'] as const;
export type Method = (typeof methods)[number];

export const bodyModes = ['json', 'multipart'] as const;

/** Stands in the place of a credential that was written out; its value is in the row's `literals`. */
export interface NoEcho {
  no_echo: true;
}

/** A template with its tokens, or the mark of a credential that was written out. */
export type Guarded = string | NoEcho;

/** Signature Version 4 over the final request. */
export interface AwsAuth {
  type: 'aws_sigv4';
  region: string;
  service: string;
  access_key_id: Guarded;
  secret_access_key: Guarded;
  session_token?: Guarded | undefined;
}

/** An access token of a Google service account. */
export interface GcpAuth {
  type: 'gcp_service_account';
  /** Text of the key file. */
  credentials: Guarded;
  scopes: string[];
}

export type Auth = AwsAuth | GcpAuth;

/** How an http tool is called, as it is stored and read back: no credential stands in it. */
export interface Execute {
  url: string;
  method: Method;
  headers: Record<string, Guarded>;
  body_mode: (typeof bodyModes)[number];
  timeout_seconds: number;
  /** Absent in rows older than it. */
  auth?: Auth | null;
}

/** An MCP server, as it is stored and read back. */
export interface Mcp {
  url: string;
  headers: Record<string, Guarded>;
}

/** A tool written into a step of a pipeline: it has no record of its own. */
export interface InlineTool {
  /** Absent: the step's id. */
  name?: string | undefined;
  type: ToolType;
  description?: string | null | undefined;
  parameters?: Record<string, unknown> | null | undefined;
  execute?: Execute | null | undefined;
  mcp?: Mcp | null | undefined;
  actions?: string[] | null | undefined;
  denied_actions?: string[] | null | undefined;
  preset_parameters?: Record<string, unknown> | null | undefined;
  context_keys?: string[] | null | undefined;
  output_mapping?: unknown;
}

/** Exactly one of `tool_id` and `tool` is set. */
export interface PipelineStep {
  id: string;
  tool_id?: string | undefined;
  tool?: InlineTool | undefined;
  /** Name of a remote tool, for a step on an MCP tool. */
  action?: string | undefined;
  /** JSON Logic by argument. */
  input: Record<string, unknown>;
}

export interface Pipeline {
  steps: PipelineStep[];
  /** JSON Logic; absent: the output of the last step. */
  output?: unknown;
}

/** A named capability that agents bind: a call made here, steps of such calls, or a call that the client answers. */
export class Tool extends Model<InferAttributes<Tool>, InferCreationAttributes<Tool>> {
  declare id: string;
  declare projectId: string;
  /** What the model sees; not unique in the project. */
  declare name: string;
  declare type: ToolType;
  /** Shown to the model. */
  declare description: string | null;
  /** JSON Schema of the arguments, as it was sent; never null for http and client tools. */
  declare parameters: Record<string, unknown> | null;
  /** Set for http tools only. */
  declare execute: Execute | null;
  /** Set for mcp tools only. */
  declare mcp: Mcp | null;
  /** Remote tools that may be used; null = all. */
  declare actions: string[] | null;
  /** Remote tools that may not, whatever `actions` says. */
  declare deniedActions: string[] | null;
  /** Pinned arguments, with tokens of the context. */
  declare presetParameters: Record<string, unknown> | null;
  /** Keys of the tool context that are forwarded; null = all. */
  declare contextKeys: string[] | null;
  /** Set for pipeline tools only. */
  declare pipeline: Pipeline | null;
  /** JSON Logic over `{output, input}`. */
  declare outputMapping: unknown;
  /** Which deployment key encrypted the literals; null = there are none. */
  declare literalsKeyId: string | null;
  /** Ciphertext of the credentials written out: JSON of place (older rows: header name) to value. */
  declare literalsData: Buffer | null;
  /** Secrets that the templates name. */
  declare secretIds: string[];
  declare createdAt: Date;
  declare updatedAt: Date;
}

/** What makes a tool, with or without a record of its own. */
export type DescribedTool = Pick<
  Tool,
  | 'id'
  | 'name'
  | 'type'
  | 'description'
  | 'parameters'
  | 'execute'
  | 'mcp'
  | 'actions'
  | 'deniedActions'
  | 'presetParameters'
  | 'contextKeys'
  | 'pipeline'
  | 'outputMapping'
>;

Tool.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: DataTypes.TEXT,
    name: DataTypes.TEXT,
    type: DataTypes.TEXT,
    description: DataTypes.TEXT,
    parameters: DataTypes.JSON,
    execute: DataTypes.JSON,
    mcp: DataTypes.JSON,
    actions: DataTypes.ARRAY(DataTypes.TEXT),
    deniedActions: DataTypes.ARRAY(DataTypes.TEXT),
    presetParameters: DataTypes.JSON,
    contextKeys: DataTypes.ARRAY(DataTypes.TEXT),
    pipeline: DataTypes.JSON,
    outputMapping: DataTypes.JSON,
    literalsKeyId: DataTypes.TEXT,
    literalsData: DataTypes.BLOB,
    secretIds: DataTypes.ARRAY(DataTypes.TEXT),
    createdAt: DataTypes.DATE(3),
    updatedAt: DataTypes.DATE(3),
  },
  { sequelize: db, modelName: 'tool', tableName: 'tools', timestamps: false, underscored: true },
);
