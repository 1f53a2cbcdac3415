import { query } from '../../src/api/core/db';
import { buildAgent, buildClientTool, buildHttpTool, created, saying } from '../support/builders';
import { useWorkspace } from '../support/workspace';

const { space, server, receiver } = useWorkspace({ project: 'test', receiver: 'test' });

const parameters = {
  type: 'object',
  properties: { account: { type: 'string' }, limit: { type: 'integer' } },
  required: ['account', 'limit'],
};
const post = { method: 'POST' };

/** Runs a turn in which the model makes one call; answers its result in the transcript and what the model was given. */
async function turnWith(toolIds: string[], toolCall: { name: string; args: object }) {
  const agent = await buildAgent(space, { tool_bindings: toolIds.map((tool_id) => ({ tool_id })) });
  server.script(space.model, [{ toolCalls: [toolCall] }, { text: 'Done.' }]);
  const reply = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=true`, saying('go'));
  expect([reply.status, reply.body.status]).toEqual([200, 'completed']);
  const transcript = await space.api.get(`${space.at}/generations/${reply.body.id as string}/transcript`);
  const calls = server.calls({ model: space.model }) as unknown as {
    body: { tools: { function: { name: string; parameters: object } }[] };
  }[];
  return {
    generationId: reply.body.id as string,
    step: transcript.body.steps[0],
    outcome: transcript.body.steps[0].tool_results[0],
    shown: calls[0]!.body.tools.map(({ function: shown }) => shown),
  };
}

test('[tools 5] the model sees no pinned argument, and what it sends for it does not count', async () => {
  const url = `${receiver.url}/pinned`;
  const pinned = { parameters, preset_parameters: { account: 'A' }, execute: { url, ...post } };
  const tool = await buildHttpTool(space, url, pinned);
  const { shown, generationId } = await turnWith([tool.id], { name: 'get_order', args: { account: 'B', limit: 1 } });
  expect(shown[0]!.parameters).toMatchObject({ properties: { limit: { type: 'integer' } }, required: ['limit'] });
  expect(JSON.stringify(shown)).not.toContain('account');
  expect(JSON.parse(receiver.requests[0]!.body)).toEqual({ account: 'A', limit: 1 });
  expect(String(receiver.requests[0]!.headers['idempotency-key'])).toMatch(new RegExp(`^${generationId}:`));
});

test('merged arguments that do not fit are told to the model, and nothing is sent', async () => {
  const url = `${receiver.url}/never`;
  const tool = await buildHttpTool(space, url, { parameters, preset_parameters: { account: 'A' } });
  const { outcome } = await turnWith([tool.id], { name: 'get_order', args: { limit: 'many' } });
  expect(outcome).toMatchObject({ result: null, error: { name: 'InvalidArguments' } });
  expect(outcome.error.message).toContain('limit');
  expect(receiver.requests).toHaveLength(0);
});

test('the transcript holds the mapped value', async () => {
  receiver.respond({ body: { name: 'x', noise: true } });
  const given = { parameters: { type: 'object' }, output_mapping: { var: 'output.name' } };
  const tool = await buildHttpTool(space, receiver.url, given);
  expect((await turnWith([tool.id], { name: 'get_order', args: {} })).outcome).toMatchObject({
    result: 'x',
    error: null,
  });
});

test('a failing target and a refused address are errors of the call, named, and the turn goes on', async () => {
  receiver.respond({ status: 500, body: 'broken' });
  const failing = await buildHttpTool(space, receiver.url, { parameters: { type: 'object' } });
  const { outcome } = await turnWith([failing.id], { name: 'get_order', args: {} });
  expect(outcome.error).toMatchObject({ name: 'HttpToolError', status: 500, method: 'GET', body: 'broken' });
  const inside = await buildHttpTool(space, 'http://169.254.169.254/', { parameters: { type: 'object' } });
  const refused = await turnWith([inside.id], { name: 'get_order', args: {} });
  expect(refused.outcome.error).toMatchObject({ name: 'ToolEgressBlocked', url: 'http://169.254.169.254/' });
});

test('a pipeline is one call of the turn, its steps keyed by the call', async () => {
  receiver.respond({ body: { id: 7 } });
  const lookup = await buildHttpTool(space, receiver.url, {
    parameters: { type: 'object' },
    execute: { url: receiver.url },
  });
  const chain = created(
    await space.api.post(`${space.at}/tools`, {
      name: 'chain',
      type: 'pipeline',
      pipeline: {
        steps: [
          { id: 'one', tool_id: lookup.id, input: { q: { var: 'input.q' } } },
          { id: 'two', tool_id: lookup.id, input: { id: { var: 'steps.one.id' } } },
        ],
        output: { ids: [{ var: 'steps.one.id' }, { var: 'steps.two.id' }] },
      },
    }),
  );
  const { outcome, generationId, shown } = await turnWith([chain.id as string], { name: 'chain', args: { q: 'x' } });
  expect(shown[0]).toMatchObject({ name: 'chain', parameters: { type: 'object' } });
  expect(outcome).toMatchObject({ result: { ids: [7, 7] }, error: null });
  expect(receiver.requests.map(({ body }) => body)).toEqual(['{"q":"x"}', '{"id":7}']);
  const keys = receiver.requests.map(({ headers }) => String(headers['idempotency-key']).split(':'));
  expect(keys).toEqual([
    [generationId, expect.any(String), 'one'],
    [generationId, expect.any(String), 'two'],
  ]);
});

test('calls of two steps under one id of the provider are two calls to their target', async () => {
  const lookup = await buildHttpTool(space, receiver.url, { parameters: { type: 'object' } });
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: lookup.id }] });
  const same = { toolCalls: [{ id: 'c', name: 'get_order', args: {} }] };
  server.script(space.model, [same, same, { text: 'Done.' }]);
  const done = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=true`, saying('go'));
  const keys = receiver.requests.map(({ headers }) => headers['idempotency-key']);
  expect(keys).toEqual([`${done.body.id}:c`, `${done.body.id}:c-0`]);
  const { steps } = (await space.api.get(`${space.at}/generations/${String(done.body.id)}/transcript`)).body;
  expect(
    steps.map(({ tool_results: [result] }: { tool_results: { tool_call_id: string }[] }) => result?.tool_call_id),
  ).toEqual(['c', 'c-0', undefined]);
});

test('the stored tool context goes with the calls of the turn, and a missing key is told to the model', async () => {
  const url = `${receiver.url}/context`;
  const headers = { 'X-Tenant': '{{context:tenant}}' };
  const lookup = await buildHttpTool(space, url, {
    parameters: { type: 'object' },
    execute: { url, method: 'GET', headers },
  });
  const ask = await buildClientTool(space, { parameters: { type: 'object' } });
  const agent = await buildAgent(space, { tool_bindings: [{ tool_id: lookup.id }, { tool_id: ask.id }] });
  server.script(space.model, [
    {
      toolCalls: [
        { name: 'get_order', args: {} },
        { name: 'approve_refund', args: {} },
      ],
    },
    { toolCalls: [{ name: 'get_order', args: {} }] },
    { text: 'Done.' },
  ]);
  const paused = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=true`, saying('go'));
  expect(paused.body.status).toBe('requires_action');
  expect(receiver.requests).toHaveLength(0);
  const id = paused.body.id as string;
  await query('update generation_contents set tool_context = $2 where generation_id = $1', [
    id,
    JSON.stringify({ tenant: 'acme', session_id: 'sess_1' }),
  ]);
  const tool_outputs = [{ tool_call_id: paused.body.required_action.tool_calls[0].id as string, output: 1 }];
  const done = await space.api.post(`${space.at}/agents/${agent.id}/generate/${id}/tool-outputs`, { tool_outputs });
  expect(done.body.status).toBe('completed');
  expect(receiver.requests[0]!.headers).toMatchObject({
    'x-tenant': 'acme',
    'x-svc-context-tenant': 'acme',
    'x-svc-context-session_id': 'sess_1',
  });
  const { body } = await space.api.get(`${space.at}/generations/${id}/transcript`);
  expect(body.steps[0].tool_results[0].error).toMatchObject({ name: 'MissingToolContextKey' });
  expect(body.steps[0].tool_results[0].error.message).toMatch(/tenant.*headers\.X-Tenant/);
});
