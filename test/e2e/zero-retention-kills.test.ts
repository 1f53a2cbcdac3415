import { buildHttpTool } from '../support/builders';
import { Runs, useLocal } from '../support/local';
import { startReceiver } from '../support/receiver';
import type { Receiver } from '../support/receiver';

const service = useLocal();
let receiver: Receiver;
let runs: Runs;

beforeAll(async () => {
  receiver = await startReceiver();
  runs = new Runs(service, await service.workspace());
});

afterAll(() => receiver.close());

test('[durable 1] a run that keeps no content completes when its worker is killed between two steps, and leaves nothing', async () => {
  const tool = await buildHttpTool(runs.space, `${receiver.url}/quiet/{order_id}`, { name: 'quiet' });
  const agent = await runs.agent(
    [{ text: 'canary-said', toolCalls: [{ name: 'quiet', args: { order_id: '7' } }] }, { text: 'Sent.' }],
    { tool_bindings: [{ tool_id: tool.id }], trace_content_mode: 'none' },
  );
  service.hold('step-stored');
  const id = await runs.begin(agent.id);
  await service.held('step-stored');
  const stored = await service.row('select content::text as text from generation_steps where generation_id = $1', [id]);
  expect(stored).toEqual({ text: expect.stringMatching(/^\{"sealed":/) });
  await service.kill('worker');
  service.letGo('step-stored');
  await service.local.start('worker');
  expect(await runs.reached(id, 'completed')).toMatchObject({ step_count: 2 });
  expect(runs.calls(id)).toMatchObject([{ step: 1 }, { step: 2 }]);
  expect(JSON.stringify(runs.calls(id)[1])).not.toContain('sealed');
  expect(receiver.requests.filter(({ path }) => path === '/quiet/7')).toHaveLength(1);
  expect(await runs.transcript(id)).toMatchObject({ input: null, steps: [], output: null, step_count: 2 });
  const left = await service.row(
    `select (select count(*) from generation_contents where generation_id = $1)::int as contents,
       (select count(*) from generation_calls where generation_id = $1)::int as calls,
       (select count(content) from generation_steps where generation_id = $1)::int as steps`,
    [id],
  );
  expect(left).toEqual({ contents: 0, calls: 0, steps: 0 });
}, 60_000);
