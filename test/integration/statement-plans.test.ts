import { Client } from 'pg';
import type { QueryConfig } from 'pg';
import { buildAgent, buildClientTool, saying } from '../support/builders';
import { eventually } from '../support/eventually';
import { useWorkspace } from '../support/workspace';

const { space, server, receiver, at } = useWorkspace();

interface PlanNode {
  'Node Type': string;
  'Index Name'?: string;
  'Index Cond'?: string;
  Filter?: string;
  Plans?: PlanNode[];
}

const nodesOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

/** The prepared statements of this process that `work` sends. */
async function statementsOf(work: () => Promise<void>): Promise<string[]> {
  const texts = new Set<string>();
  const plain = Reflect.get(Client.prototype, 'query') as (...given: unknown[]) => unknown;
  const spy = jest.spyOn(Client.prototype, 'query').mockImplementation(function (this: Client, ...given: unknown[]) {
    const { name, text } = given[0] as Partial<QueryConfig>;
    if (name !== undefined && text !== undefined) texts.add(text);
    return plain.apply(this, given);
  });
  try {
    await work();
  } finally {
    spy.mockRestore();
  }
  return [...texts];
}

/** How a planner that has no figures of any table would look for rows: `read` says which indexes it would read whole. */
async function readWhole(statements: string[]): Promise<string[]> {
  const name = `plans_${String(process.pid)}`;
  const admin = new Client({ connectionString: process.env.TEST_DATABASE_ADMIN_URL });
  await admin.connect();
  const address = new URL(process.env.TEST_DATABASE_ADMIN_URL ?? '');
  address.pathname = `/${name}`;
  try {
    await admin.query('select pg_advisory_lock(42)'); // Clones of one template are made one after the other.
    await admin.query(`create database ${name} template template`);
    await admin.query('select pg_advisory_unlock(42)');
    const client = new Client({ connectionString: address.toString() });
    await client.connect();
    const found: string[] = [];
    for (const text of statements) {
      const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `explain (generic_plan, format json) ${text}`,
      );
      const nodes = nodesOf(rows[0]!['QUERY PLAN'][0].Plan);
      for (const node of nodes) {
        if (node['Index Name'] === undefined || node['Index Cond'] !== undefined) continue;
        found.push(`${node['Index Name']}, filtered by ${node.Filter ?? 'nothing'}: ${text}`);
      }
    }
    await client.end();
    return found;
  } finally {
    await admin.query(`drop database if exists ${name} with (force)`);
    await admin.end();
  }
}

const idOf = ({ body }: { body: { id: string } }): string => body.id;

test('what runs, pauses and is delivered is found by its key, also before the planner knows anything of a table', async () => {
  const tool = await buildClientTool(space);
  const asking = await buildAgent(space, { tool_bindings: [{ tool_id: tool.id }] });
  server.script(space.model, [
    { toolCalls: [{ id: 'c1', name: 'approve_refund', args: { order_id: '1' } }] },
    { text: 'Done.' },
  ]);
  const statements = await statementsOf(async () => {
    await space.api.post(at('/webhooks'), { url: `${receiver.url}/hook`, events: ['*'] });
    const paused = await space.api.post(at(`/agents/${asking.id}/generate?wait=true`), saying('go'));
    const done = await space.api.post(at(`/agents/${asking.id}/generate/${idOf(paused)}/tool-outputs`), {
      tool_outputs: [{ tool_call_id: 'c1', output: 'yes' }],
    });
    expect(done.body.status).toBe('completed');
    await eventually(async () => {
      const { body } = await space.api.get(at('/webhook-deliveries?status=success'));
      expect(body.data).toHaveLength(1);
    });
    const late = await space.api.post(at(`/agents/${asking.id}/generate`), saying('go'));
    await eventually(async () => {
      expect((await space.api.get(at(`/generations/${idOf(late)}`))).body.status).toBe('requires_action');
    });
    expect((await space.api.post(at(`/generations/${idOf(late)}/cancel`))).status).toBe(200);
  });
  expect(statements.length).toBeGreaterThan(20);
  expect(statements.filter((text) => text.includes('update webhook_deliveries'))).not.toEqual([]);
  expect(await readWhole(statements)).toEqual([]);
}, 60_000);
