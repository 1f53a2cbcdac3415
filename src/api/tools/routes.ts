import { projectRole } from '../core/access';
import { presentOffsetPage } from '../core/pages';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { callDirectly } from './direct';
import { presentTool } from './present';
import {
  ToolCall,
  ToolCallResult,
  ToolCreate,
  ToolDeleteQuery,
  ToolListQuery,
  ToolOut,
  ToolPage,
  ToolParams,
  ToolUpdate,
} from './schemas';
import { createTool, deleteTool, getTool, listTools, updateTool } from './service';

const COLLECTION = '/v1/projects/:project_id/tools';
const ITEM = `${COLLECTION}/:tool_id`;

/** A field that the caller sent; one that was not sent is no change. */
const given = <K extends string, V>(key: K, value: V | undefined): Partial<Record<K, V>> =>
  value === undefined ? {} : ({ [key]: value } as Record<K, V>);

const writeFailures = [
  'SECRET_NOT_FOUND',
  'TOOL_NOT_FOUND',
  'INVALID_TEMPLATE_TOKEN',
  'INVALID_TOOL_CONTEXT_KEY',
  'PIPELINE_INVALID_STEP',
  'GUARDRAIL_NOT_FOUND',
] as const;

export const toolRoutes: Route[] = [
  route({
    method: 'post',
    path: COLLECTION,
    id: 'createTool',
    summary: 'Add a tool',
    needs: projectRole('member'),
    action: 'tools:CreateTool',
    inputCode: 'VALIDATION_FAILED',
    body: ToolCreate,
    answers: { 201: ToolOut },
    fails: [...writeFailures],
    handle: async ({ project, body }) => {
      const created = await createTool(project.id, {
        name: body.name,
        type: body.type,
        description: body.description,
        parameters: body.parameters,
        execute: body.execute,
        mcp: body.mcp,
        actions: body.actions,
        deniedActions: body.denied_actions,
        presetParameters: body.preset_parameters,
        contextKeys: body.context_keys,
        pipeline: body.pipeline,
        outputMapping: body.output_mapping,
        guardrailIds: body.guardrail_ids ?? null,
      });
      return { status: 201, body: presentTool(created) };
    },
  }),
  route({
    method: 'get',
    path: COLLECTION,
    id: 'listTools',
    summary: 'List tools',
    needs: projectRole('member'),
    action: 'tools:ListTools',
    inputCode: 'VALIDATION_FAILED',
    query: ToolListQuery,
    answers: { 200: ToolPage },
    handle: async ({ project, query }) => {
      const page = await listTools(project.id, query);
      return { status: 200, body: presentOffsetPage(page, presentTool) };
    },
  }),
  route({
    method: 'get',
    path: ITEM,
    id: 'getTool',
    summary: 'Read a tool',
    needs: projectRole('member'),
    action: 'tools:GetTool',
    inputCode: 'VALIDATION_FAILED',
    params: ToolParams,
    answers: { 200: ToolOut },
    handle: async ({ project, params }) => ({
      status: 200,
      body: presentTool(await getTool(project.id, params.tool_id)),
    }),
  }),
  route({
    method: 'patch',
    path: ITEM,
    id: 'updateTool',
    summary: 'Change a tool',
    needs: projectRole('member'),
    action: 'tools:UpdateTool',
    inputCode: 'VALIDATION_FAILED',
    params: ToolParams,
    body: ToolUpdate,
    answers: { 200: ToolOut },
    fails: [...writeFailures],
    handle: async ({ project, params, body }) => {
      const changed = await updateTool(project.id, params.tool_id, {
        ...given('name', body.name),
        ...given('description', body.description),
        ...given('parameters', body.parameters),
        ...given('execute', body.execute),
        ...given('mcp', body.mcp),
        ...given('actions', body.actions),
        ...given('deniedActions', body.denied_actions),
        ...given('presetParameters', body.preset_parameters),
        ...given('contextKeys', body.context_keys),
        ...given('pipeline', body.pipeline),
        ...given('outputMapping', body.output_mapping),
        ...given('guardrailIds', body.guardrail_ids),
      });
      return { status: 200, body: presentTool(changed) };
    },
  }),
  route({
    method: 'delete',
    path: ITEM,
    id: 'deleteTool',
    summary: 'Delete a tool',
    needs: projectRole('member'),
    action: 'tools:DeleteTool',
    inputCode: 'VALIDATION_FAILED',
    params: ToolParams,
    query: ToolDeleteQuery,
    answers: { 204: null },
    fails: ['TOOL_HAS_DEPENDENTS'],
    handle: async ({ project, params, query }) => {
      await deleteTool(project.id, params.tool_id, query.force);
      return { status: 204 };
    },
  }),
  route({
    method: 'post',
    path: `${ITEM}/call`,
    id: 'callTool',
    summary: 'Call a tool',
    needs: projectRole('member'),
    action: 'tools:CallTool',
    inputCode: 'VALIDATION_FAILED',
    params: ToolParams,
    body: ToolCall,
    answers: { 200: ToolCallResult },
    fails: [
      'SECRET_NOT_FOUND',
      'TOOL_NOT_FOUND',
      'INVALID_TOOL_CONTEXT_KEY',
      'MISSING_TOOL_CONTEXT_KEY',
      'TOOL_EGRESS_BLOCKED',
      'PROJECT_PAUSED',
      'plan_limit_reached',
      'PROJECT_ARCHIVED',
      'TOOL_CALL_NOT_SUPPORTED',
      'PIPELINE_STEP_FAILED',
      'PIPELINE_DEPTH_EXCEEDED',
      'TOOL_HTTP_ERROR',
      'TOOL_AUTH_FAILED',
      'TOOL_TIMEOUT',
    ],
    handle: async ({ project, params, body }) => {
      const { input, action, tool_context: toolContext } = body;
      const output = await callDirectly({ project, toolId: params.tool_id, input, action, toolContext });
      return { status: 200, body: output };
    },
  }),
];
