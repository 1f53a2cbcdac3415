import { DataTypes, Model } from 'sequelize';
import type { InferAttributes, InferCreationAttributes } from 'sequelize';
import { db } from '../core/db';

/** The types of tools this build serves. */
export const servedTypes = ['http', 'client'] as const;
export type ToolType = (typeof servedTypes)[number];

export const methods = ['GET', 'HEAD', 'DELETE', 'POST', 'PUT', 'PATCH'] as const;
export type Method = (typeof methods)[number];

/** Stands in the place of a credential that was written out in a header; its value is in the row's `literals`. */
export interface NoEcho {
  no_echo: true;
}

/** How an http tool is called, as it is stored and read back: no credential stands in it. */
export interface Execute {
  url: string;
  method: Method;
  headers: Record<string, string | NoEcho>;
  body_mode: 'json';
  timeout_seconds: number;
}

/** A named capability that agents bind: an HTTP call made here, or a call that the client answers. */
export class Tool extends Model<InferAttributes<Tool>, InferCreationAttributes<Tool>> {
  declare id: string;
  declare projectId: string;
  /** What the model sees; not unique in the project. */
  declare name: string;
  declare type: ToolType;
  /** Shown to the model. */
  declare description: string | null;
  /** JSON Schema of the arguments, as it was sent. */
  declare parameters: Record<string, unknown>;
  /** Null for client tools. */
  declare execute: Execute | null;
  /** Which deployment key encrypted the literals; null = there are none. */
  declare literalsKeyId: string | null;
  /** Ciphertext of the credentials written out in headers: JSON of header name to value. */
  declare literalsData: Buffer | null;
  /** Secrets that the templates name. */
  declare secretIds: string[];
  declare createdAt: Date;
  declare updatedAt: Date;
}

Tool.init(
  {
    id: { type: DataTypes.TEXT, primaryKey: true },
    projectId: DataTypes.TEXT,
    name: DataTypes.TEXT,
    type: DataTypes.TEXT,
    description: DataTypes.TEXT,
    parameters: DataTypes.JSON,
    execute: DataTypes.JSON,
    literalsKeyId: DataTypes.TEXT,
    literalsData: DataTypes.BLOB,
    secretIds: DataTypes.ARRAY(DataTypes.TEXT),
    createdAt: DataTypes.DATE(3),
    updatedAt: DataTypes.DATE(3),
  },
  { sequelize: db, modelName: 'tool', tableName: 'tools', timestamps: false, underscored: true },
);
