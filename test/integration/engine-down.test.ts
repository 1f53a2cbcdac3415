import { config } from '../../src/api/core/config';
import { query } from '../../src/api/core/db';
import { useService } from '../support/app';
import { buildAgent, saying, workspace } from '../support/builders';
import type { Workspace } from '../support/builders';

// Nothing listens there: the engine is unreachable for the whole file.
Object.assign(config(), { TEMPORAL_ADDRESS: '127.0.0.1:9', GENERATION_WAIT_MAX_SECONDS: 3 });

const service = useService();
let space: Workspace;

beforeAll(async () => {
  const owner = await service.signedIn();
  const project = await service.project(owner);
  space = await workspace(service.client(owner.token), project.id, 'http://127.0.0.1:9/v1');
});

const begun = async (): Promise<number> => {
  const agent = await buildAgent(space);
  const before = performance.now();
  const reply = await space.api.post(`${space.at}/agents/${agent.id}/generate`, saying('x'));
  expect(reply.status).toBe(202);
  return performance.now() - before;
};

const started = async (wait: boolean): Promise<{ status: number; id: string; agentId: string }> => {
  const agent = await buildAgent(space);
  const reply = await space.api.post(`${space.at}/agents/${agent.id}/generate?wait=${String(wait)}`, saying('x'));
  return { status: reply.status, id: reply.body.id, agentId: agent.id };
};

test('a run is accepted in every mode: its row is committed, and the sweep will start it', async () => {
  for (const wait of [false, true]) {
    const before = performance.now();
    const { status, id } = await started(wait);
    expect(status).toBe(202);
    // The engine is asked again until then, and not longer.
    if (wait) expect(performance.now() - before).toBeLessThan(6_000);
    const record = await space.api.get(`${space.at}/generations/${id}`);
    expect(record.body).toMatchObject({ status: 'in_progress', started_at: null });
  }
}, 60_000);

test('a run in the background is answered at its commit, and does not wait for the start', async () => {
  // A start gives up after 5 s.
  expect(Math.max(await begun(), await begun())).toBeLessThan(2_000);
}, 60_000);

test('tool outputs and a cancel need the engine: 503 with Retry-After, and nothing is changed', async () => {
  const { id, agentId } = await started(false);
  await query(`update generations set status = 'requires_action', pause = 1 where id = $1`, [id]);
  await query(
    `insert into generation_calls (generation_id, step, call, project_id, call_id, tool_name, kind, pause, args) values ($1, 1, 0, $2, 'c1', 't', 'client', 1, '{}')`,
    [id, space.projectId],
  );
  const before = performance.now();
  const [outputs, cancel] = await Promise.all([
    space.api.post(`${space.at}/agents/${agentId}/generate/${id}/tool-outputs`, {
      tool_outputs: [{ tool_call_id: 'c1', output: 1 }],
    }),
    space.api.post(`${space.at}/generations/${id}/cancel`),
  ]);
  // Each asks for 15 s.
  expect(performance.now() - before).toBeLessThan(18_000);
  for (const reply of [outputs, cancel]) {
    expect([reply.status, reply.body.error.code, reply.headers['retry-after']]).toEqual([
      503,
      'service_unavailable',
      '5',
    ]);
  }
  expect((await space.api.get(`${space.at}/generations/${id}`)).body.status).toBe('requires_action');
}, 60_000);
