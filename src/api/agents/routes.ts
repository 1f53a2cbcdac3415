import { principalOf, projectRole } from '../core/access';
import type { ErrorCode } from '../core/errors';
import { presentOffsetPage } from '../core/pages';
import { route } from '../core/route';
import type { Answer, Route } from '../core/route';
import type { Agent } from './models';
import { statedVersion } from './precondition';
import { presentAgent, presentAgentVersion } from './present';
import { restoreVersion } from './restore';
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
  VersionRestore,
} from './schemas';
import { createAgent, deleteAgent, getAgent, listAgents, updateAgent } from './service';
import { getVersion, listVersions } from './versions';

const COLLECTION = '/v1/projects/:project_id/agents';
const ITEM = `${COLLECTION}/:agent_id`;

const unknownReferences = [
  'not_found',
  'TOOL_NOT_FOUND',
  'SECRET_NOT_FOUND',
  'PIPELINE_INVALID_STEP',
  'MODEL_ROUTE_NOT_FOUND',
  'GUARDRAIL_NOT_FOUND',
  'DOCUMENT_NOT_FOUND',
  'MEMORY_STORE_NOT_FOUND',
] satisfies ErrorCode[];

const refusedConfigs = [
  'INVALID_OUTPUT_SCHEMA',
  'FORCED_TOOL_CHOICE_CANNOT_STOP',
  'INVALID_TEMPLATE_TOKEN',
  'INVALID_TOOL_CONTEXT_KEY',
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
    fails: ['VERSION_CONFLICT', ...unknownReferences, ...refusedConfigs],
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
    fails: [...unknownReferences, ...refusedConfigs],
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
    summary: 'Delete an agent; one that ran only by force',
    needs: projectRole('member'),
    action: 'agents:DeleteAgent',
    inputCode: 'VALIDATION_FAILED',
    params: AgentParams,
    query: AgentDeleteQuery,
    answers: { 204: null },
    fails: ['AGENT_HAS_DEPENDENTS'],
    handle: async ({ project, caller, requestId, params, query }) => {
      const by = { requestId, principalId: principalOf(caller).id };
      await deleteAgent({ projectId: project.id, agentId: params.agent_id, force: query.force }, by);
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
  route({
    method: 'post',
    path: `${ITEM}/versions/:version/restore`,
    id: 'restoreAgentVersion',
    summary: 'Make the configuration of a version the live one again',
    needs: projectRole('member'),
    action: 'agents:RestoreAgentVersion',
    inputCode: 'VALIDATION_FAILED',
    params: AgentVersionParams,
    body: VersionRestore,
    answers: { 200: AgentOut },
    fails: ['VERSION_CONFLICT', 'AI_PROVIDER_NOT_FOUND', ...unknownReferences, 'FORCED_TOOL_CHOICE_CANNOT_STOP'],
    handle: async ({ project, caller, params, body, header }) => {
      const target = {
        projectId: project.id,
        agentId: params.agent_id,
        statedVersion: statedVersion(header('If-Match'), body.expected_version),
      };
      const by = { userId: caller.userId, label: body.label };
      return answered(200, await restoreVersion(target, params.version, by));
    },
  }),
];
