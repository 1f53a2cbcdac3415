import { projectRole } from '../core/access';
import { presentOffsetPage } from '../core/pages';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { presentTool } from './present';
import { ToolCreate, ToolDeleteQuery, ToolListQuery, ToolOut, ToolPage, ToolParams, ToolUpdate } from './schemas';
import { createTool, deleteTool, getTool, listTools, updateTool } from './service';

const COLLECTION = '/v1/projects/:project_id/tools';
const ITEM = `${COLLECTION}/:tool_id`;

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
    fails: ['SECRET_NOT_FOUND', 'INVALID_TEMPLATE_TOKEN', 'GUARDRAIL_NOT_FOUND'],
    handle: async ({ project, body }) => {
      const created = await createTool(project.id, {
        name: body.name,
        type: body.type,
        description: body.description,
        parameters: body.parameters,
        execute: body.execute,
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
    fails: ['SECRET_NOT_FOUND', 'INVALID_TEMPLATE_TOKEN', 'GUARDRAIL_NOT_FOUND'],
    handle: async ({ project, params, body }) => {
      const changed = await updateTool(project.id, params.tool_id, {
        ...(body.name === undefined ? {} : { name: body.name }),
        ...(body.description === undefined ? {} : { description: body.description }),
        ...(body.parameters === undefined ? {} : { parameters: body.parameters }),
        ...(body.execute === undefined ? {} : { execute: body.execute }),
        ...(body.guardrail_ids === undefined ? {} : { guardrailIds: body.guardrail_ids }),
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
];
