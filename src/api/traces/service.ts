import { getAgent } from '../agents/service';
import { notFound } from '../core/errors';
import { listByOffset } from '../core/pages';
import { PRESENT } from '../core/select';
import type { Where } from '../core/select';
import { generationsOfTraces, stepsOfTrace } from '../generations/trace-reads';
import { Trace } from './models';
import type { Tree } from './present';

/** Nodes of a tree, and generations in it, that one answer shows. */
const TREE_NODES_MAX = 1_000;
const TREE_GENERATIONS_MAX = 5_000;

interface PageInput {
  limit: number;
  offset: number;
}

/** A trace of the project. @throws not_found */
export async function getTrace(projectId: string, id: string): Promise<Trace> {
  const row = await Trace.findOne({ where: { projectId, id } });
  if (row === null) throw notFound();
  return row;
}

export interface TraceFilters {
  agentId?: string | undefined;
  rootTraceId?: string | undefined;
  hasError?: boolean | undefined;
}

/** One page of a project's traces, newest first; filters combine. */
export function listTraces(projectId: string, { agentId, rootTraceId, hasError }: TraceFilters, page: PageInput) {
  const where: Where<Trace> = {
    projectId,
    ...(agentId === undefined ? {} : { agentId }),
    ...(rootTraceId === undefined ? {} : { rootTraceId }),
    ...(hasError === undefined ? {} : { error: hasError ? PRESENT : null }),
  };
  return listByOffset(Trace, { where, ...page });
}

/** One page of an agent's traces, newest first. @throws not_found when there is no such agent */
export async function listAgentTraces(projectId: string, agentId: string, page: PageInput) {
  await getAgent(projectId, agentId);
  return listTraces(projectId, { agentId }, page);
}

/** One page of the steps of all turns of a trace, in order; none of a turn whose content was removed. @throws not_found */
export async function listTraceSteps(projectId: string, traceId: string, page: PageInput) {
  await getTrace(projectId, traceId);
  return stepsOfTrace({ projectId, traceId }, page);
}

/**
 * The whole tree that a trace belongs to, from its root, whichever of its traces is named. Of a tree of more than 1,000
 * traces the oldest are shown.
 * Spec: Traces, endpoints.
 * @throws not_found
 */
export async function getTree(projectId: string, traceId: string, withGenerations: boolean): Promise<Tree> {
  const asked = await getTrace(projectId, traceId);
  const root = asked.rootTraceId === null ? asked : await getTrace(projectId, asked.rootTraceId);
  // A caller's trace is older than those of its calls, so that the oldest ones hang together.
  const below = await Trace.findAll({
    where: { projectId, rootTraceId: root.id },
    order: [
      ['createdAt', 'ASC'],
      ['id', 'ASC'],
    ],
    limit: TREE_NODES_MAX,
  });
  const tree = { root, below: below.slice(0, TREE_NODES_MAX - 1), truncated: below.length === TREE_NODES_MAX };
  if (!withGenerations) return { ...tree, generations: null };
  const ids = [root.id, ...tree.below.map(({ id }) => id)];
  const { byTrace, complete } = await generationsOfTraces(projectId, ids, TREE_GENERATIONS_MAX);
  return { ...tree, generations: byTrace, truncated: tree.truncated || !complete };
}
