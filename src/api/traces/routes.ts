import { z } from 'zod';
import { principalOf, projectRole } from '../core/access';
import { idOf } from '../core/ids';
import { OffsetQuery, presentOffsetPage } from '../core/pages';
import { route } from '../core/route';
import { presentStep } from '../generations/present';
import { presentTrace, presentTree } from './present';
import { removeContent } from './purge';
import { TraceListQuery, TraceNode, TraceOut, TracePage, TraceStepPage, TraceTreeQuery } from './schemas';
import { getTrace, getTree, listAgentTraces, listTraceSteps, listTraces } from './service';

const TRACES = '/v1/projects/:project_id/traces';
const TRACE = `${TRACES}/:trace_id`;
const traceParams = z.object({ trace_id: idOf('trace') });

export const traceRoutes = [
  route({
    method: 'get',
    path: TRACES,
    id: 'listTraces',
    summary: 'List traces',
    needs: projectRole('member'),
    action: 'traces:ListTraces',
    inputCode: 'VALIDATION_FAILED',
    query: TraceListQuery,
    answers: { 200: TracePage },
    handle: async ({ project, query }) => {
      const { limit, offset, agent_id: agentId, root_trace_id: rootTraceId, has_error: hasError } = query;
      const page = await listTraces(project.id, { agentId, rootTraceId, hasError }, { limit, offset });
      return { status: 200, body: presentOffsetPage(page, presentTrace) };
    },
  }),
  route({
    method: 'get',
    path: TRACE,
    id: 'getTrace',
    summary: 'Read a trace',
    needs: projectRole('member'),
    action: 'traces:GetTrace',
    inputCode: 'VALIDATION_FAILED',
    params: traceParams,
    answers: { 200: TraceOut },
    handle: async ({ project, params }) => ({
      status: 200,
      body: presentTrace(await getTrace(project.id, params.trace_id)),
    }),
  }),
  route({
    method: 'get',
    path: `${TRACE}/steps`,
    id: 'listTraceSteps',
    summary: 'List the steps of all turns of a trace, in order',
    needs: projectRole('member'),
    action: 'traces:ListTraceSteps',
    inputCode: 'VALIDATION_FAILED',
    params: traceParams,
    query: OffsetQuery,
    answers: { 200: TraceStepPage },
    handle: async ({ project, params, query }) => {
      const page = await listTraceSteps(project.id, params.trace_id, query);
      const body = presentOffsetPage(page, ({ generationId, index, step, calls }) => ({
        generation_id: generationId,
        ...presentStep(step, index, calls),
      }));
      return { status: 200, body };
    },
  }),
  route({
    method: 'get',
    path: `${TRACE}/tree`,
    id: 'getTraceTree',
    summary: 'Read the whole tree that a trace belongs to',
    needs: projectRole('member'),
    action: 'traces:GetTraceTree',
    inputCode: 'VALIDATION_FAILED',
    params: traceParams,
    query: TraceTreeQuery,
    answers: { 200: TraceNode },
    handle: async ({ project, params, query }) => ({
      status: 200,
      body: presentTree(await getTree(project.id, params.trace_id, query.include === 'generations')),
    }),
  }),
  route({
    method: 'delete',
    path: `${TRACE}/content`,
    id: 'purgeTrace',
    summary: 'Remove the content of a trace and of those below it for good',
    needs: projectRole('member'),
    action: 'traces:PurgeTrace',
    inputCode: 'VALIDATION_FAILED',
    params: traceParams,
    answers: { 200: TraceOut },
    fails: ['GENERATION_IN_PROGRESS', 'service_unavailable'],
    handle: async ({ project, caller, requestId, params }) => {
      const removed = await removeContent({
        projectId: project.id,
        traceId: params.trace_id,
        by: principalOf(caller),
        requestId,
      });
      return { status: 200, body: presentTrace(removed) };
    },
  }),
  route({
    method: 'get',
    path: '/v1/projects/:project_id/agents/:agent_id/traces',
    id: 'listAgentTraces',
    summary: 'List the traces of an agent',
    needs: projectRole('member'),
    action: 'agents:ListAgentTraces',
    inputCode: 'VALIDATION_FAILED',
    params: z.object({ agent_id: idOf('agent') }),
    query: OffsetQuery,
    answers: { 200: TracePage },
    handle: async ({ project, params, query }) => ({
      status: 200,
      body: presentOffsetPage(await listAgentTraces(project.id, params.agent_id, query), presentTrace),
    }),
  }),
];
