import fc from 'fast-check';
import type { Script } from '../support/loop-model';
import { LoopRun, loopTools } from '../support/loop-runs';
import type { LoopStage } from '../support/loop-runs';
import { scripts, unpaired } from '../support/loop-scripts';
import type { SentMessage } from '../support/loop-scripts';
import { useWorkspace } from '../support/workspace';

const { service, owner, space, server, receiver } = useWorkspace();
let stage: LoopStage;

beforeAll(async () => {
  const toolIds = await loopTools(space, receiver);
  stage = { space, server, toolIds, token: owner.token, baseUrl: service.baseUrl, kills: false, delayMs: 0 };
});

test('whatever the model, the tools, the provider and the caller do, the record, the answers of those who wait and the streams say what the loop must have done', async () => {
  const modes = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.array(scripts(), { minLength: 14, maxLength: 18 }), async (batch) => {
      const play = async (script: Script) => (await new LoopRun(stage, script).prepare()).play();
      const outcomes = await Promise.allSettled(batch.map(play));
      const failed = outcomes.find((outcome) => outcome.status === 'rejected');
      if (failed !== undefined) throw failed.reason;
      for (const { mode } of batch) modes.add(mode);
    }),
    { numRuns: 3, interruptAfterTimeLimit: 120_000 },
  );
  expect([...modes].sort()).toEqual(['background', 'stream', 'wait']);
}, 180_000);

test('every request that a provider ever got pairs each tool call with exactly one result', () => {
  const requests = server.calls();
  const withCalls = requests.filter(({ body }) => JSON.stringify(body).includes('tool_call_id'));
  expect(withCalls.length).toBeGreaterThan(20);
  const problems = requests.flatMap(({ key, body }) =>
    unpaired((body as { messages: SentMessage[] }).messages).map((problem) => `${String(key)}: ${problem}`),
  );
  expect(problems).toEqual([]);
});
