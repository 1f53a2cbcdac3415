import type { Attributes } from 'sequelize';
import type { z } from 'zod';
import { isoTime, isoTimeOrNull } from '../core/timestamps';
import { presentGeneration } from '../generations/present';
import type { TreeGeneration } from '../generations/trace-reads';
import type { Trace } from './models';
import type { TraceNodeBody, TraceOut } from './schemas';

/** The trace record. */
export const presentTrace = (row: Attributes<Trace>): z.output<typeof TraceOut> => ({
  id: row.id,
  project_id: row.projectId,
  agent_id: row.agentId,
  step_count: row.stepCount,
  parent_trace_id: row.parentTraceId,
  root_trace_id: row.rootTraceId,
  orchestration_run_id: row.orchestrationRunId,
  error: row.error,
  content_redacted_at: isoTimeOrNull(row.contentRedactedAt),
  content_redacted_by_principal_type: row.contentRedactedByPrincipalType,
  content_redacted_by_principal_id: row.contentRedactedByPrincipalId,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

/** The traces of one tree, oldest first. */
export interface Tree {
  root: Trace;
  /** All but the root. */
  below: Trace[];
  /** By trace; null when they were not asked for. */
  generations: ReadonlyMap<string, TreeGeneration[]> | null;
  truncated: boolean;
}

/** The tree as one node: each trace with those below it. A trace whose parent is beyond the limit is left out with it. */
export function presentTree({ root, below, generations, truncated }: Tree): TraceNodeBody {
  const nodeOf = (row: Trace): TraceNodeBody => ({
    ...presentTrace(row),
    children: [],
    ...(generations === null
      ? {}
      : {
          generations: (generations.get(row.id) ?? []).map(({ row: own, pending }) => presentGeneration(own, pending)),
        }),
  });
  const top = { ...nodeOf(root), ...(truncated ? { truncated: true as const } : {}) };
  const nodes = new Map<string, TraceNodeBody>([[root.id, top]]);
  for (const row of below) nodes.set(row.id, nodeOf(row));
  for (const row of below) {
    const node = nodes.get(row.id);
    if (node !== undefined) nodes.get(row.parentTraceId ?? '')?.children.push(node);
  }
  return top;
}
