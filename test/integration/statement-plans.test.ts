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

/** How a planner that has no figures of any table would find the rows of each statement, whatever its values are. */
async function plansOf(statements: string[]): Promise<{ text: string; nodes: PlanNode[] }[]> {
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
    const plans: { text: string; nodes: PlanNode[] }[] = [];
    for (const text of statements) {
      const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `explain (generic_plan, format json) ${text}`,
      );
      plans.push({ text, nodes: nodesOf(rows[0]!['QUERY PLAN'][0].Plan) });
    }
    await client.end();
    return plans;
  } finally {
    await admin.query(`drop database if exists ${name} with (force)`);
    await admin.end();
  }
}

/** Which indexes are read whole. */
const readWhole = async (statements: string[]): Promise<string[]> =>
  (await plansOf(statements)).flatMap(({ text, nodes }) =>
    nodes
      .filter((node) => node['Index Name'] !== undefined && node['Index Cond'] === undefined)
      .map((node) => `${node['Index Name'] ?? ''}, filtered by ${node.Filter ?? 'nothing'}: ${text}`),
  );

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

test('a page of a project comes in the order of its index, and is not sorted, whatever other index names the project', async () => {
  const statements = await statementsOf(async () => {
    expect((await space.api.get(at('/generations?limit=50'))).status).toBe(200);
  });
  const pages = statements.filter((text) => text.includes('order by created_at desc'));
  expect(pages).toHaveLength(1);
  const [page] = await plansOf(pages);
  expect(page?.nodes.map((node) => [node['Node Type'], node['Index Name']])).toEqual([
    ['Limit', undefined],
    ['Index Scan', 'generations_project_idx'],
  ]);
});
