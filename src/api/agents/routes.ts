import { projectRole } from '../core/access';
import { invalidInput } from '../core/errors';
import type { ErrorCode } from '../core/errors';
import { presentOffsetPage } from '../core/pages';
import { route } from '../core/route';
import type { Answer, Route } from '../core/route';
import type { Agent } from './models';
import { statedVersion } from './precondition';
import { presentAgent, presentAgentVersion } from './present';
import {
  AgentCreate,
  AgentDeleteQuery,
  AgentListQuery,
  AgentOut,
  AgentPage,
  AgentParams,
  AgentUpdate,
  AgentVersionOut,
  AgentVersionPage,
  AgentVersionParams,
} from './schemas';
import { createAgent, deleteAgent, getAgent, listAgents, updateAgent } from './service';
import { getVersion, listVersions } from './versions';

const COLLECTION = '/v1/projects/:project_id/agents';
const ITEM = `${COLLECTION}/:agent_id`;

const unknownReferences = [
  'not_found',
  'TOOL_NOT_FOUND',
  'MODEL_ROUTE_NOT_FOUND',
  'GUARDRAIL_NOT_FOUND',
  'DOCUMENT_NOT_FOUND',
  'MEMORY_STORE_NOT_FOUND',
] satisfies ErrorCode[];

const answered = (status: number, agent: Agent): Answer => ({
  status,
  body: presentAgent(agent),
  headers: { ETag: `"${String(agent.version)}"` },
});

/** PUT and PATCH are the same partial update. */
const updateRoute = (method: 'put' | 'patch', id: string): Route =>
  route({
    method,
    path: ITEM,
    id,
    summary: 'Change the given fields of an agent',
    needs: projectRole('member'),
    action: 'agents:UpdateAgent',
    inputCode: 'VALIDATION_FAILED',
    params: AgentParams,
    body: AgentUpdate,
    answers: { 200: AgentOut },
    fails: ['VERSION_CONFLICT', ...unknownReferences],
    handle: async ({ project, caller, params, body, header }) => {
      const { version_label: label, expected_version: expected, ...given } = body;
      const target = {
        projectId: project.id,
        agentId: params.agent_id,
        statedVersion: statedVersion(header('If-Match'), expected),
      };
      return answered(200, await updateAgent(target, given, { userId: caller.userId, label: label ?? null }));
    },
  });

export const agentRoutes: Route[] = [
  route({
    method: 'post',
    path: COLLECTION,
    id: 'createAgent',
    summary: 'Create an agent',
    needs: projectRole('member'),
    action: 'agents:CreateAgent',
    inputCode: 'VALIDATION_FAILED',
    body: AgentCreate,
    answers: { 201: AgentOut },
    fails: unknownReferences,
    handle: async ({ project, caller, body }) => {
      const { version_label: label, ...config } = body;
      return answered(201, await createAgent(project.id, config, { userId: caller.userId, label: label ?? null }));
    },
  }),
  route({
    method: 'get',
    path: COLLECTION,
    id: 'listAgents',
    summary: 'List agents',
    needs: projectRole('member'),
    action: 'agents:ListAgents',
    inputCode: 'VALIDATION_FAILED',
    query: AgentListQuery,
    answers: { 200: AgentPage },
    handle: async ({ project, query }) => {
      const page = await listAgents(project.id, query);
      return { status: 200, body: presentOffsetPage(page, presentAgent) };
    },
  }),
  route({
    method: 'get',
    path: ITEM,
    id: 'getAgent',
    summary: 'Read an agent; the ETag is its version',
    needs: projectRole('member'),
    action: 'agents:GetAgent',
    inputCode: 'VALIDATION_FAILED',
    params: AgentParams,
    answers: { 200: AgentOut },
    handle: async ({ project, params }) => answered(200, await getAgent(project.id, params.agent_id)),
  }),
  updateRoute('put', 'replaceAgent'),
  updateRoute('patch', 'updateAgent'),
  route({
    method: 'delete',
    path: ITEM,
    id: 'deleteAgent',
    summary: 'Delete an agent that never ran',
    needs: projectRole('member'),
    action: 'agents:DeleteAgent',
    inputCode: 'VALIDATION_FAILED',
    params: AgentParams,
    query: AgentDeleteQuery,
    answers: { 204: null },
    fails: ['VALIDATION_FAILED', 'AGENT_HAS_DEPENDENTS'],
    handle: async ({ project, params, query }) => {
      if (query.force) throw invalidInput('VALIDATION_FAILED', 'query.force', 'true is not served by this build');
      await deleteAgent(project.id, params.agent_id);
      return { status: 204 };
    },
  }),
  route({
    method: 'get',
    path: `${ITEM}/versions`,
    id: 'listAgentVersions',
    summary: 'List the versions of an agent',
    needs: projectRole('member'),
    action: 'agents:ListAgentVersions',
    inputCode: 'VALIDATION_FAILED',
    params: AgentParams,
    query: AgentListQuery,
    answers: { 200: AgentVersionPage },
    handle: async ({ project, params, query }) => {
      const page = await listVersions(project.id, params.agent_id, query);
      return { status: 200, body: presentOffsetPage(page, presentAgentVersion) };
    },
  }),
  route({
    method: 'get',
    path: `${ITEM}/versions/:version`,
    id: 'getAgentVersion',
    summary: 'Read a version of an agent',
    needs: projectRole('member'),
    action: 'agents:GetAgentVersion',
    inputCode: 'VALIDATION_FAILED',
    params: AgentVersionParams,
    answers: { 200: AgentVersionOut },
    fails: ['bad_request'],
    handle: async ({ project, params }) => ({
      status: 200,
      body: presentAgentVersion(await getVersion(project.id, params.agent_id, params.version)),
    }),
  }),
];
