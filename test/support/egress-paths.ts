import { query } from '../../src/api/core/db';
import { googleTokenEndpoint } from '../../src/api/core/google-token';
import { randomText } from '../../src/api/core/random';
import { resolveMcpTools } from '../../src/api/tools/mcp';
import type { Service } from './app';
import { buildAgent, buildHttpTool, created, saying, workspace } from './builders';
import type { Workspace } from './builders';
import type { Reply } from './client';
import type { EgressStage, Redirect } from './egress-stage';
import { eventually } from './eventually';
import { keyFile } from './model-access';
import { openStream } from './stream';
import { deliveryRow, emit } from './webhooks';

/** One way in which a tenant makes this service send a request, over the service's own HTTP interface. */
export interface EgressPath {
  name: string;
  /** Writes the URL where a tenant would: status and code of the answer. Absent where no tenant writes it. */
  write?: (url: string) => Promise<string>;
  /** Lets the service call the URL, whatever writing says of it: what the service says of the call. */
  call: (url: string) => Promise<string>;
  /** What it says of an address that may not be called. */
  blocked: RegExp;
  /** What it says of a redirect with that status; absent where redirects are followed. */
  notFollowed?: (status: number) => RegExp;
  /** What it says when there are more redirects than are followed. */
  tooMany?: RegExp;
  /** What a call costs: next to nothing when absent, else a session with a server or a whole run. */
  takes?: 'session' | 'run';
  /** Lets the service call several URLs at once, at most `URLS_AT_ONCE`: what it says of each. */
  callAll?: (urls: string[]) => Promise<string[]>;
  /** Requests that it makes before it gives a host up that refuses it; 1 when absent. */
  tries?: number;
}

/** What the paths write into: one project with one of everything, whose URLs change from call to call. */
export interface EgressProject extends Workspace {
  service: Service;
  stage: EgressStage;
  token: string;
  webhookId: string;
  tool: { id: string; name: string };
  toolAgentId: string;
  /** Further tools of an agent of their own, to be called in one step. */
  batch: { tools: { id: string; name: string }[]; agentId: string };
  mcp: { id: string; agentId: string };
  /** An http tool that signs in with the service account. */
  signing: { id: string };
  /** Of a vendor whose address changes, and an agent on it. */
  vendor: { id: string; agentId: string };
  vertex: { id: string; agentId: string; secretId: string; keyFile: object };
}

/** Tools that one step calls. */
const URLS_AT_ONCE = 16;

async function batchOf(space: Workspace): Promise<EgressProject['batch']> {
  const tools: { id: string; name: string }[] = [];
  for (let index = 0; index < URLS_AT_ONCE; index += 1) {
    const name = `probe_${String(index)}`;
    tools.push(await buildHttpTool(space, 'https://example.com/', { name, parameters: { type: 'object' } }));
  }
  const agent = await buildAgent(space, { tool_bindings: tools.map(({ id }) => ({ tool_id: id })) });
  return { tools, agentId: agent.id };
}

export async function egressProject(service: Service, stage: EgressStage): Promise<EgressProject> {
  const owner = await service.signedIn();
  const { id } = await service.project(owner);
  const space = await workspace(service.client(owner.token), id, stage.models.url);
  const { api, at } = space;
  const hook = created(await api.post(`${at}/webhooks`, { url: 'https://example.com/', events: ['project.paused'] }));
  const tool = await buildHttpTool(space, 'https://example.com/', { parameters: { type: 'object' } });
  const toolAgent = await buildAgent(space, { tool_bindings: [{ tool_id: tool.id }] });
  const remote = created(
    await api.post(`${at}/tools`, { name: 'remote', type: 'mcp', mcp: { url: 'https://example.com/' } }),
  );
  const mcpAgent = await buildAgent(space, { tool_bindings: [{ tool_id: remote.id }] });
  const file = keyFile().text;
  const secret = created(await api.post(`${at}/secrets`, { name: 's', value: file }));
  const auth = { type: 'gcp_service_account', credentials: `{{secret:${String(secret.id)}}}`, scopes: ['scope'] };
  const signing = await buildHttpTool(space, '', {
    name: 'signing',
    parameters: { type: 'object' },
    execute: { url: stage.allowed.url, auth },
  });
  const provider = async (given: object): Promise<{ id: string; agentId: string }> => {
    const made = created(await api.post(`${at}/ai-providers`, { name: 'p', default_model: 'm', ...given }));
    return { id: made.id, agentId: (await buildAgent({ ...space, providerId: made.id })).id };
  };
  const vertex = await provider({
    provider: 'vertex',
    config: { project: 'p' },
    base_url: `${stage.allowed.url}/vertex`,
    secret_id: secret.id,
  });
  return {
    ...space,
    ...{ service, stage, token: owner.token, webhookId: hook.id, tool, toolAgentId: toolAgent.id },
    batch: await batchOf(space),
    ...{ mcp: { id: remote.id, agentId: mcpAgent.id }, signing },
    vendor: await provider({ provider: 'custom', base_url: stage.models.url }),
    vertex: { ...vertex, secretId: secret.id, keyFile: JSON.parse(file) as object },
  };
}

/** Gives the project's service account a key file that nobody has seen: no kept token is of it. */
export async function newKeyFile({ api, at, vertex }: EgressProject, given: object = {}): Promise<void> {
  const value = JSON.stringify({ ...vertex.keyFile, private_key_id: randomText(12), ...given });
  await api.patch(`${at}/secrets/${vertex.secretId}`, { value });
}

const said = ({ status, body }: Reply): string =>
  status < 300 ? String(status) : `${String(status)} ${String(body.error.code)}: ${String(body.error.message)}`;

const generate = ({ api, at }: EgressProject, agentId: string): Promise<Reply> =>
  api.post(`${at}/agents/${agentId}/generate?wait=true`, saying('hi'));

async function deliver({ projectId, webhookId }: EgressProject, url: string): Promise<string> {
  await query('update webhooks set url = $2 where id = $1', [webhookId, url]);
  const [id = ''] = await emit(projectId);
  const row = await eventually(async () => {
    const found = await deliveryRow(id);
    if (found.attempts === 0) throw new Error('not attempted');
    return found;
  });
  const tried = await query<{ error: string | null }>(
    'select error from webhook_delivery_attempts where delivery_id = $1',
    [id],
  );
  await query('delete from webhook_deliveries where id = $1', [id]);
  return `${row.status} ${String(row.status_code)} ${String(row.response_body)} ${String(tried[0]?.error)}`;
}

const moveTool = ({ id }: { id: string }, url: string): Promise<unknown> =>
  query(`update tools set execute = (execute::jsonb || jsonb_build_object('url', $2::text))::json where id = $1`, [
    id,
    url,
  ]);

/** Points the mcp tool of the project elsewhere. */
export const moveMcp = ({ mcp }: EgressProject, url: string): Promise<unknown> =>
  query(`update tools set mcp = (mcp::jsonb || jsonb_build_object('url', $2::text))::json where id = $1`, [
    mcp.id,
    url,
  ]);

const direct = async ({ api, at }: EgressProject, toolId: string, body: object = {}): Promise<string> => {
  return said(await api.post(`${at}/tools/${toolId}/call`, body));
};

async function listRemote(project: EgressProject, url: string): Promise<string> {
  await moveMcp(project, url);
  const { signal } = new AbortController();
  const tools = await resolveMcpTools(project.projectId, project.mcp.id, { toolContext: {}, signal });
  return 'unavailable' in tools ? tools.unavailable : 'listed';
}

interface Calling {
  tools: { id: string; name: string }[];
  agentId: string;
}

/** A run whose model asks for each tool once: how the run ended, and the text that the model then read of each call. */
async function callTools(project: EgressProject, { tools, agentId }: Calling, urls: string[]): Promise<string[]> {
  const { stage, model } = project;
  const called = urls.map((url, index) => ({ url, tool: tools[index]! }));
  for (const { url, tool } of called) await moveTool(tool, url);
  stage.models.script(model, [
    { toolCalls: called.map(({ tool }) => ({ name: tool.name, args: {} })) },
    { text: 'done' },
  ]);
  const read = readOf(project, await generate(project, agentId));
  return called.map((_call, index) => read[index] ?? 'not read');
}

async function callTool(project: EgressProject, url: string): Promise<string> {
  const [answer = ''] = await callTools(project, { tools: [project.tool], agentId: project.toolAgentId }, [url]);
  return answer;
}

/**
 * A run that gets the list of an mcp server, and whose calls of its tools are then redirected, each as it says: the text that
 * the model read of each.
 */
export async function callListed(project: EgressProject, redirects: Redirect[]): Promise<string[]> {
  const { stage, model, mcp } = project;
  await moveMcp(project, stage.remote.url);
  const gate = randomText(8);
  const toolCalls = redirects.map(() => ({ name: 'remote_echo', args: {} }));
  stage.models.script(model, [{ toolCalls, hold: gate }, { text: 'done' }]);
  const running = generate(project, mcp.agentId);
  await stage.models.waitForCall({ model });
  stage.remote.redirects.push(...redirects);
  stage.models.release(gate);
  return readOf(project, await running);
}

/** The text that the model read of each call, by the last request of the run. */
function readOf({ stage }: EgressProject, run: Reply): string[] {
  const calls = stage.models.calls({ generationId: String(run.body.id) });
  const { messages = [] } = (calls.at(-1)?.body ?? {}) as { messages?: { role: string; content: unknown }[] };
  const read = messages.filter(({ role }) => role === 'tool');
  return read.map((message) => `${said(run)} ${String(run.body.status)}: ${JSON.stringify(message)}`);
}

async function onVendor(project: EgressProject, url: string, call: () => Promise<string>): Promise<string> {
  await query('update ai_providers set base_url = $2 where id = $1', [project.vendor.id, url]);
  return call();
}

async function streamed({ service, token, at, vendor }: EgressProject): Promise<string> {
  const open = await openStream(`${service.baseUrl}${at}/agents/${vendor.agentId}/generate`, {
    token,
    body: { ...saying('hi'), stream: true },
  });
  return (await open.rest()).join('\n');
}

async function withTokensFrom(project: EgressProject, url: string, call: () => Promise<string>): Promise<string> {
  await newKeyFile(project);
  const fixed = googleTokenEndpoint.url;
  googleTokenEndpoint.url = url;
  try {
    return await call();
  } finally {
    googleTokenEndpoint.url = fixed;
  }
}

const writer =
  (project: () => EgressProject, collection: string, body: (url: string) => object) =>
  async (url: string): Promise<string> => {
    const { api, at } = project();
    const reply = await api.post(`${at}/${collection}`, body(url));
    if (reply.status === 201) await api.delete(`${at}/${collection}/${String(reply.body.id)}`);
    return reply.status === 201 ? '201' : `${String(reply.status)} ${String(reply.body.error.code)}`;
  };

/**
 * Every path out of the service. A new one (`http` channels, files of knowledge) is one more entry here, and the whole
 * table holds for it.
 */
export const egressPaths = (project: () => EgressProject): EgressPath[] => [
  {
    name: 'a webhook delivery',
    write: writer(project, 'webhooks', (url) => ({ url, events: ['*'], active: false })),
    call: (url) => deliver(project(), url),
    blocked: /^pending null egress_blocked egress_blocked$/,
    notFollowed: (status) => new RegExp(`^pending ${String(status)} {2}null$`),
  },
  {
    name: 'an http tool in a run',
    write: writer(project, 'tools', (url) => ({
      name: 'probe',
      parameters: { type: 'object' },
      execute: { url, method: 'GET' },
    })),
    call: (url) => callTool(project(), url),
    blocked: /^200 completed: .*The target may not be called: /,
    tooMany: /^200 completed: .*more than 5/,
    takes: 'run',
    callAll: (urls) => callTools(project(), project().batch, urls),
  },
  {
    name: 'a direct call of an http tool',
    call: async (url) => {
      await moveTool(project().tool, url);
      return direct(project(), project().tool.id);
    },
    blocked: /^403 TOOL_EGRESS_BLOCKED: The target may not be called: /,
    tooMany: /^502 TOOL_HTTP_ERROR: .*more than 5/,
  },
  {
    name: 'a direct call of an mcp tool',
    write: writer(project, 'tools', (url) => ({ name: 'probe', type: 'mcp', mcp: { url } })),
    call: async (url) => {
      await moveMcp(project(), url);
      return direct(project(), project().mcp.id, { action: 'echo' });
    },
    blocked: /^403 TOOL_EGRESS_BLOCKED: The target may not be called: /,
    takes: 'session',
    tooMany: /^502 TOOL_HTTP_ERROR: .*more than 5/,
  },
  {
    name: 'the list of an mcp server',
    call: (url) => listRemote(project(), url),
    blocked: /^egress_blocked$/,
    tooMany: /^unreachable$/,
    takes: 'session',
    tries: 2,
  },
  {
    name: 'a Google token of a tool',
    call: (url) => withTokensFrom(project(), url, () => direct(project(), project().signing.id)),
    blocked: /^403 TOOL_EGRESS_BLOCKED: The target may not be called: /,
    notFollowed: () => /^502 TOOL_AUTH_FAILED: /,
    takes: 'session',
  },
  {
    name: 'a model call',
    write: writer(project, 'ai-providers', (url) => ({
      name: 'p',
      provider: 'custom',
      default_model: 'm',
      base_url: url,
    })),
    call: (url) => onVendor(project(), url, async () => said(await generate(project(), project().vendor.agentId))),
    blocked: /^502 AI_PROVIDER_ERROR: Provider address is not allowed\.$/,
    tooMany: /^502 AI_PROVIDER_ERROR: .*more than 5/,
    takes: 'run',
  },
  {
    name: 'a streamed model call',
    call: (url) => onVendor(project(), url, () => streamed(project())),
    blocked: /^data: \{"error":"Provider address is not allowed\."\}$/,
    tooMany: /^data: \{"error":"[^"]*more than 5/,
    takes: 'run',
  },
  {
    name: 'a model listing',
    call: (url) => onVendor(project(), url, async () => said(await listing(project(), project().vendor.id))),
    blocked: /^502 MODEL_LISTING_FAILED: The custom provider could not be reached: its address is not allowed\.$/,
    notFollowed: (status) => new RegExp(`^502 MODEL_LISTING_FAILED: .*\\(HTTP ${String(status)}\\)`),
  },
  {
    name: 'a Google token for a listing',
    call: (url) => withTokensFrom(project(), url, async () => said(await listing(project(), project().vertex.id))),
    blocked: /^502 MODEL_LISTING_FAILED: The vertex provider could not be reached: its address is not allowed\.$/,
    takes: 'session',
    notFollowed: (status) => new RegExp(`^502 MODEL_LISTING_FAILED: .*\\(HTTP ${String(status)}\\)`),
  },
  {
    name: 'a Google token for a model call',
    call: (url) =>
      withTokensFrom(project(), url, async () => said(await generate(project(), project().vertex.agentId))),
    blocked: /^502 AI_PROVIDER_ERROR: Provider address is not allowed\.$/,
    notFollowed: (status) => new RegExp(`^502 AI_PROVIDER_ERROR: Provider returned ${String(status)}: `),
    takes: 'run',
  },
];

/** The models of a provider, as the API lists them. */
export const listing = ({ api, at }: EgressProject, providerId: string): Promise<Reply> =>
  api.get(`${at}/ai-providers/${providerId}/models`);
