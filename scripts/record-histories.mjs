// Records one history of every workflow type, and of each way in which a generation ends or waits, from real runs of a
// local service, into test/workflows/histories. Run it by hand after a change of a workflow is meant, and commit the files:
//   npm run build && node scripts/record-histories.mjs
// With names it writes only those, as for a way that was not there before: a kept history is never recorded anew in passing.
//   node scripts/record-histories.mjs generation-streamed generation-stream-lost
import { execFileSync } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const { Client, Connection } = require('@temporalio/client');
const { Client: Database } = require('pg');
const { signInByMail } = require('../dist/local/sign-in.js');
const { startLocal } = require('../dist/local/supervisor.js');
const { findTemporalCli, userCache } = require('../dist/local/temporal-cli.js');
const { startReceiver } = require('../dist/local/receiver.js');

const local = await startLocal({
  dataDir: await mkdtemp(join(tmpdir(), 'svc-histories-')),
  quiet: true,
  env: {
    ...process.env,
    WEBHOOK_BACKOFF_BASE_SECONDS: '0.2',
    SWEEP_INTERVAL_SECONDS: '1',
    CALL_HEARTBEAT_SECONDS: '3',
  },
});
const cli = await findTemporalCli({ cacheFolders: [userCache()], log: console.error });
const receiver = await startReceiver();
const connection = await Connection.connect({ address: local.temporalAddress });
const engine = new Client({ connection });

const call = async (method, path, body, token) => {
  const reply = await fetch(`${local.baseUrl}${path}`, {
    method,
    headers: {
      'Content-Type': 'application/json',
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await reply.text();
  return { status: reply.status, body: text === '' ? null : JSON.parse(text) };
};
const until = async (look) => {
  const end = Date.now() + 60_000;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`gave up: ${look}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
};
const ended = (id) => async () => (await engine.workflow.getHandle(id).describe()).status.name === 'COMPLETED';
const only = process.argv.slice(2);
const save = async (name, id) => {
  if (only.length > 0 && !only.includes(name)) return;
  const shown = ['workflow', 'show', '-w', id, '--output', 'json', '--address', local.temporalAddress];
  const history = JSON.parse(execFileSync(cli, shown, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 }));
  const file = fileURLToPath(new URL(`../test/workflows/histories/${name}.json`, import.meta.url));
  // Process and machine that ran it are of no use to a replay.
  const anonymous = JSON.stringify(history, null, 1).replace(/\d+@[\w.-]+/g, 'recorded');
  await writeFile(file, `${anonymous}\n`);
  console.log(`${name}: ${id}, ${history.events.length} events`);
};

try {
  const token = await signInByMail(local, 'histories@people.test');
  const post = async (path, body) => (await call('POST', path, body, token)).body;
  const project = await post('/v1/projects', { name: 'histories' });
  const at = `/v1/projects/${project.id}`;
  const invited = await post(`${at}/members`, { email: 'invited@people.test' });
  await until(ended(`mail/${invited.id}`));
  await save('mail-invitation', `mail/${invited.id}`);
  const provider = await post(`${at}/ai-providers`, {
    name: 'local',
    provider: 'custom',
    default_model: 'm',
    base_url: local.modelServerUrl,
  });
  const parameters = { type: 'object', properties: { id: { type: 'string' } } };
  const client = await post(`${at}/tools`, { name: 'ask_client', type: 'client', parameters });
  const http = await post(`${at}/tools`, {
    name: 'get_thing',
    type: 'http',
    parameters,
    execute: { url: `${receiver.url}/thing`, method: 'GET' },
  });
  const held = await post(`${at}/tools`, {
    name: 'get_held',
    type: 'http',
    parameters,
    execute: { url: `${receiver.url}/held`, method: 'GET' },
  });
  const agentOf = (model) =>
    post(`${at}/agents`, {
      ai_provider_id: provider.id,
      model,
      tool_bindings: [{ tool_id: client.id }, { tool_id: http.id }, { tool_id: held.id }],
    });
  const run = async (model, replies, wait) => {
    local.modelServer.script(model, replies);
    const agent = await agentOf(model);
    const result = await post(`${at}/agents/${agent.id}/generate?wait=${wait}`, {
      messages: [{ role: 'user', content: 'go' }],
    });
    return { agent, result, id: result.id ?? result.error.meta.generation_id };
  };
  const asking = { toolCalls: [{ id: 'c1', name: 'ask_client', args: { id: 'x' } }] };
  const fetching = {
    toolCalls: [
      { name: 'get_thing', args: {} },
      { name: 'get_thing', args: {} },
    ],
  };

  await save('generation-finished', (await run('finished', [{ text: 'done' }], true)).id);
  await save('generation-tools', (await run('tools', [fetching, fetching, { text: 'done' }], true)).id);
  await save('generation-failed', (await run('failed', [{ status: 500, times: 9 }], true)).id);
  await save('generation-paused', (await run('paused', [fetching, asking], true)).id);

  const resumed = await run('resumed', [asking, { text: 'done' }], true);
  await post(`${at}/agents/${resumed.agent.id}/generate/${resumed.id}/tool-outputs`, {
    tool_outputs: [{ tool_call_id: 'c1', output: 1 }],
  });
  await save('generation-resumed', resumed.id);

  const cancelled = await run('cancelled', [asking], true);
  await post(`${at}/generations/${cancelled.id}/cancel`);
  await save('generation-cancelled', cancelled.id);

  const stream = async (model, replies) => {
    local.modelServer.script(model, replies);
    const agent = await agentOf(model);
    const reply = await fetch(`${local.baseUrl}${at}/agents/${agent.id}/generate`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'go' }], stream: true }),
    });
    return { id: reply.headers.get('x-svc-generation-id'), frames: reply.text() };
  };
  const streamed = await stream('streamed', [{ chunks: ['do', 'ne'] }]);
  await streamed.frames;
  await until(ended(streamed.id));
  await save('generation-streamed', streamed.id);

  // Under zero retention, and its caller has hung up: settled, it waits until its answer was read or nobody came for it.
  local.modelServer.script('scratch', [{ text: 'done', hold: 'caller-gone' }]);
  const silent = await post(`${at}/agents`, {
    ai_provider_id: provider.id,
    model: 'scratch',
    trace_content_mode: 'none',
  });
  const hangUp = new AbortController();
  fetch(`${local.baseUrl}${at}/agents/${silent.id}/generate?wait=true`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'go' }] }),
    signal: hangUp.signal,
  }).catch(() => undefined);
  const { generationId: scratch } = await local.modelServer.waitForCall({ model: 'scratch' });
  hangUp.abort();
  local.modelServer.release('caller-gone');
  await until(
    async () =>
      (await call('GET', `${at}/generations/${scratch}`, undefined, token)).body.status === 'completed' &&
      // The timer of the wait stands in the history.
      (await engine.workflow.getHandle(scratch).fetchHistory()).events.some(
        (event) => event.timerStartedEventAttributes,
      ),
  );
  await save('generation-scratch', scratch);

  // The process of the stream goes while a tool is called: nobody takes the next step on its queue.
  receiver.respond({ hold: 'process-gone' }, '/held');
  const lost = await stream('stream-lost', [{ toolCalls: [{ name: 'get_held', args: {} }] }, { text: 'done' }]);
  lost.frames.catch(() => undefined);
  await receiver.waitFor(({ path }) => path === '/held');
  local.kill('api', 0, 'SIGKILL');
  await until(() => !local.processes().some(({ name }) => name === 'api-0'));
  receiver.release('process-gone');
  await until(ended(lost.id));
  await save('generation-stream-lost', lost.id);
  await local.start('api');

  // A paused run is cancelled, a settled one goes with it.
  const doomed = await run('doomed', [asking], true);
  await call('DELETE', `${at}/agents/${doomed.agent.id}?force=true`, undefined, token);
  const deletion = `delete/${doomed.agent.id}`;
  await until(async () => (await engine.workflow.getHandle(deletion).describe()).status.name === 'COMPLETED');
  await save('agentDeletion', deletion);
  // Paused and resumed, and then deleted with a paused run in it.
  const doomedProject = await post('/v1/projects', { name: 'doomed' });
  const inDoomed = `/v1/projects/${doomedProject.id}`;
  const settledPause = async () =>
    (await engine.workflow.getHandle(`pause/${doomedProject.id}`).describe()).status.name;
  await post(`${inDoomed}/pause`);
  await until(async () => (await settledPause()) === 'COMPLETED');
  await save('projectPause', `pause/${doomedProject.id}`);
  const ownProvider = await post(`${inDoomed}/ai-providers`, {
    name: 'local',
    provider: 'custom',
    default_model: 'doomed-project',
    base_url: local.modelServerUrl,
  });
  const ownTool = await post(`${inDoomed}/tools`, { name: 'ask_client', type: 'client', parameters });
  const ownAgent = await post(`${inDoomed}/agents`, {
    ai_provider_id: ownProvider.id,
    model: 'doomed-project',
    tool_bindings: [{ tool_id: ownTool.id }],
  });
  await post(`${inDoomed}/resume`);
  local.modelServer.script('doomed-project', [asking]);
  await post(`${inDoomed}/agents/${ownAgent.id}/generate?wait=true`, { messages: [{ role: 'user', content: 'go' }] });
  await call('DELETE', `${inDoomed}?force=true`, undefined, token);
  await until(ended(`delete/${doomedProject.id}`));
  await save('projectDeletion', `delete/${doomedProject.id}`);
  const purged = (await run('purged', [{ text: 'done' }], true)).result.trace_id;
  await call('DELETE', `${at}/traces/${purged}/content`, undefined, token);
  await until(async () => (await engine.workflow.getHandle(`purge/${purged}`).describe()).status.name !== 'RUNNING');
  await save('tracePurge', `purge/${purged}`);

  const delivered = async (path, rule, status) => {
    receiver.respond(rule, path);
    const webhook = await post(`${at}/webhooks`, { url: `${receiver.url}${path}`, events: ['*'] });
    await run('event', [{ text: 'done' }], true);
    const found = await until(
      async () =>
        (await call('GET', `${at}/webhook-deliveries?webhook_id=${webhook.id}&status=${status}`, undefined, token)).body
          .data[0],
    );
    // The row is settled in the activity; the run's own end follows.
    await until(async () => (await engine.workflow.getHandle(found.id).describe()).status.name !== 'RUNNING');
    await call('DELETE', `${at}/webhooks/${webhook.id}`, undefined, token);
    return found.id;
  };
  await save(
    'delivery-success',
    await delivered('/flaky', [{ status: 500 }, { status: 500 }, { status: 200 }], 'success'),
  );
  await save('delivery-failed', await delivered('/broken', { status: 500 }, 'failed'));

  // A worker that starts and finds a value under another key brings it under its own.
  await post(`${at}/secrets`, { name: 'of another key', value: 'x' });
  const database = new Database({ connectionString: local.databaseUrl });
  await database.connect();
  await database.query(`update secrets set value_key_id = 'deadbeef'`);
  await database.end();
  await local.start('worker');

  const newest = async (type) => {
    const kind = type === 'mail' ? ' AND ResourceType = "sign_in_code"' : '';
    for await (const found of engine.workflow.list({
      query: `WorkflowType = "${type}" AND ExecutionStatus = "Completed"${kind}`,
    }))
      return found.workflowId;
    return undefined;
  };
  for (const schedule of ['sweep/auth', 'retention/deliveries']) await engine.schedule.getHandle(schedule).trigger();
  for (const type of ['mail', 'sweepStarts', 'sweepLost', 'sweepExpired', 'retain'])
    await save(type, await until(() => newest(type)));
  // Under another name whenever it goes through more tables: those that were recorded before stay.
  await save('reencryption-agents', await until(() => newest('reencryption')));
} finally {
  await connection.close();
  await receiver.close();
  await local.stop();
}
