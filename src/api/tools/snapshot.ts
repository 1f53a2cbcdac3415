import type { OpenInlineTool } from './fields';
import { stepPlace } from './headers';
import type { DescribedTool, Execute, InlineTool, Mcp, Method, Pipeline, PipelineStep, ToolType } from './models';
import { modelParameters } from './presets';

/**
 * A tool as one turn or one call uses it; holds no credential and can be stored as JSON with the turn. What may be absent
 * is so in turns stored by an earlier build.
 */
export interface ToolSnapshot {
  /** The record that holds the credentials; of an inline tool, the pipeline's. */
  id: string;
  /** What the model sees; `{name}_{remote tool}` for mcp. */
  name: string;
  type: ToolType;
  description: string | null;
  /** What the model sees: without the pinned arguments. */
  parameters: Record<string, unknown>;
  /**
   * The whole schema, which the merged arguments must fit, where presets took something out of it; null = `parameters`. Of
   * an mcp tool with presets it is null until its server's list is known.
   */
  declared?: Record<string, unknown> | null;
  /** Null for tools that are no http call. */
  method: Method | null;
  /** Null for client tools. */
  timeoutMs: number | null;
  execute: Execute | null;
  mcp?: Mcp | null;
  actions?: string[] | null;
  deniedActions?: string[] | null;
  /** The remote tool that this entry stands for; null until the server's list is known. */
  remoteName?: string | null;
  pipeline?: Pipeline | null;
  presets?: Record<string, unknown> | null;
  contextKeys?: string[] | null;
  outputMapping?: unknown;
  /** Where its credentials stand among those of the record; absent = at their beginning. */
  literalsAt?: string;
  /** Stands in the configuration of an agent: it has no record, and no list of active tools names it. */
  inline?: true;
  /** The credentials of an inline tool, where any were written out in it; absent = those of the record `id`. */
  credentialsId?: string;
}

/** An mcp tool of a turn whose server has not been asked for its list yet. */
export interface UnresolvedMcpTool {
  tool_id: string;
  name: string;
  /** Of an inline tool: the tool itself, which no record holds. */
  tool?: ToolSnapshot;
}

/** A tool of an MCP server, as its list gives it. */
export interface RemoteTool {
  name: string;
  description: string | null;
  /** Its input schema: an object schema within our bounds. */
  parameters: Record<string, unknown>;
}

/** What an MCP server, which has no setting of its own, is given for one call. */
export const MCP_TIMEOUT_MS = 300_000;
/** A pipeline takes as long as its steps; this is what the whole may take. */
export const PIPELINE_TIMEOUT_MS = 3_600_000;
const ANY_OBJECT = { type: 'object' };

/** The snapshot of a stored tool; of an mcp tool without its remote tools. */
export function snapshotOf(row: DescribedTool): ToolSnapshot {
  // The schemas of an mcp tool are its server's.
  const declared = (row.type === 'mcp' ? null : row.parameters) ?? ANY_OBJECT;
  const parameters = modelParameters(declared, row.presetParameters);
  return {
    id: row.id,
    name: row.name,
    type: row.type,
    description: row.description,
    parameters,
    declared: parameters === declared || row.type === 'mcp' ? null : declared,
    method: row.execute?.method ?? null,
    timeoutMs: timeoutOf(row.type, row.execute),
    execute: row.execute,
    mcp: row.mcp,
    actions: row.actions,
    deniedActions: row.deniedActions,
    remoteName: null,
    pipeline: row.pipeline,
    presets: row.presetParameters,
    contextKeys: row.contextKeys,
    outputMapping: row.outputMapping ?? null,
  };
}

const orNull = <T>(value: T | null | undefined): T | null => value ?? null;

/** The snapshot of a tool that stands in a step of the pipeline `owner`, whose record holds its credentials. */
export function inlineSnapshotOf(owner: ToolSnapshot, step: PipelineStep, tool: InlineTool): ToolSnapshot {
  const declared = (tool.type === 'mcp' ? null : tool.parameters) ?? ANY_OBJECT;
  const execute = orNull(tool.execute);
  return {
    id: owner.id,
    name: tool.name ?? step.id,
    type: tool.type,
    description: orNull(tool.description),
    // No model sees it.
    parameters: declared,
    declared: null,
    method: execute === null ? null : execute.method,
    timeoutMs: timeoutOf(tool.type, execute),
    execute,
    mcp: orNull(tool.mcp),
    actions: orNull(tool.actions),
    deniedActions: orNull(tool.denied_actions),
    remoteName: null,
    pipeline: null,
    presets: orNull(tool.preset_parameters),
    contextKeys: orNull(tool.context_keys),
    outputMapping: orNull(tool.output_mapping),
    literalsAt: stepPlace(step.id),
    ...(owner.credentialsId === undefined ? {} : { credentialsId: owner.credentialsId }),
  };
}

/** The snapshot of a tool that an agent has for itself; `id` tells it from the other tools of its turn. */
export function agentInlineSnapshotOf(
  id: string,
  { tool, credentials_id: credentialsId }: { tool: OpenInlineTool; credentials_id?: string | undefined },
): ToolSnapshot {
  const described = {
    ...{ id, name: tool.name, type: tool.type, description: tool.description, parameters: tool.parameters },
    ...{ execute: tool.execute, mcp: tool.mcp, pipeline: tool.pipeline, actions: tool.actions },
    ...{ deniedActions: tool.denied_actions, presetParameters: tool.preset_parameters },
    ...{ contextKeys: tool.context_keys, outputMapping: tool.output_mapping },
  };
  return { ...snapshotOf(described), inline: true, ...(credentialsId === undefined ? {} : { credentialsId }) };
}

/** One remote tool of an mcp tool, named as the model sees it, with the tool's presets taken out of its schema. */
export function remoteSnapshotOf(tool: ToolSnapshot, remote: RemoteTool): ToolSnapshot {
  const parameters = modelParameters(remote.parameters, tool.presets);
  return {
    ...tool,
    name: `${tool.name}_${remote.name}`,
    description: remote.description ?? tool.description,
    parameters,
    declared: parameters === remote.parameters ? null : remote.parameters,
    remoteName: remote.name,
  };
}

function timeoutOf(type: ToolType, execute: Execute | null): number | null {
  if (type === 'client') return null;
  if (type === 'pipeline') return PIPELINE_TIMEOUT_MS;
  return execute === null ? MCP_TIMEOUT_MS : execute.timeout_seconds * 1000;
}
