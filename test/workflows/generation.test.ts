import { ApplicationFailure } from '@temporalio/common';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { StepOutcome } from '../../src/workflows/generations.contract';
import { freshId, withWorker } from '../support/workflow-run';

Runtime.install({ logger: new DefaultLogger('ERROR') });

/** Activities that answer what a test scripts, and remember what they were asked, in order. */
function scripted(steps: (StepOutcome | Error)[], overrides: Record<string, (input: never) => Promise<unknown>> = {}) {
  const asked: string[] = [];
  const note = (name: string, value: unknown) => (input: Record<string, unknown>) => {
    const { generationId: _id, ...facts } = input;
    asked.push(`${name} ${JSON.stringify(facts)}`);
    return Promise.resolve(value);
  };
  const activities: Record<string, (input: never) => Promise<unknown>> = {
    runModelStep: ({ step }: { step: number }) => {
      asked.push(`runModelStep ${String(step)}`);
      const next = steps.shift() ?? { kind: 'settled' };
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
    },
    callTool: note('callTool', undefined),
    recordLostCall: note('recordLostCall', undefined),
    recordPause: note('recordPause', true),
    acceptToolOutputs: note('acceptToolOutputs', true),
    settleGeneration: note('settleGeneration', undefined),
    dropContent: note('dropContent', undefined),
    ...overrides,
  };
  return { asked, activities };
}

const start = { taskQueue: 'platform', workflowExecutionTimeout: '30s' } as const;
const begin = (client: Parameters<Parameters<typeof withWorker>[1]>[0], workflowId: string) =>
  client.workflow.start('generation', {
    ...start,
    workflowId,
    args: [{ generationId: workflowId, heartbeatMs: 3_000 }],
  });

const calls = (step: number, more: Partial<Extract<StepOutcome, { kind: 'calls' }>>): StepOutcome => ({
  kind: 'calls',
  step,
  serverCalls: [],
  clientCalls: 0,
  pause: 1,
  ...more,
});

const http = (call: number) => ({ call, timeoutMs: 5_000, read: false });

test('a run that settles at its first step takes one activity', async () => {
  const { asked, activities } = scripted([{ kind: 'settled' }]);
  await withWorker(activities, async (client) => (await begin(client, freshId())).result());
  expect(asked).toEqual(['runModelStep 1']);
});

test('server calls are made between steps, and the rows lead: the step that comes back counts', async () => {
  const { asked, activities } = scripted([calls(4, { serverCalls: [http(0), http(1)] }), { kind: 'settled' }]);
  await withWorker(activities, async (client) => (await begin(client, freshId())).result());
  expect(asked.slice().sort()).toEqual(
    ['runModelStep 1', 'callTool {"step":4,"call":0}', 'callTool {"step":4,"call":1}', 'runModelStep 5'].sort(),
  );
  expect(asked.at(-1)).toBe('runModelStep 5');
});

test('a call that is lost is recorded, not repeated', async () => {
  let tries = 0;
  const { asked, activities } = scripted([calls(1, { serverCalls: [http(0)] }), { kind: 'settled' }], {
    callTool: () => {
      tries += 1;
      return Promise.reject(new Error('the worker is gone'));
    },
  });
  await withWorker(activities, async (client) => (await begin(client, freshId())).result());
  expect(tries).toBe(1);
  expect(asked).toContain('recordLostCall {"step":1,"call":0}');
});

test('a read is tried three times before it is recorded as lost', async () => {
  let tries = 0;
  const { activities } = scripted(
    [calls(1, { serverCalls: [{ call: 0, timeoutMs: 5_000, read: true }] }), { kind: 'settled' }],
    {
      callTool: () => {
        tries += 1;
        return Promise.reject(new Error('connection failed'));
      },
    },
  );
  await withWorker(activities, async (client) => (await begin(client, freshId())).result());
  expect(tries).toBe(3);
});

test('a pause takes one submission, refuses others by code, and answers its waiters', async () => {
  const stands = calls(1, { clientCalls: 1, pause: 3 });
  // Another pause's number has the run look at its rows, which say the same again.
  const { asked, activities } = scripted([stands, stands, { kind: 'settled' }]);
  await withWorker(activities, async (client) => {
    const handle = await begin(client, freshId());
    const submit = (submissionId: string, pause: number) =>
      handle.executeUpdate('submitToolOutputs', { args: [{ submissionId, pause }], updateId: submissionId });
    await handle.executeUpdate('awaitRest', { args: [{ afterPause: 0 }] });
    await expect(submit('s0', 2)).rejects.toMatchObject({ cause: { type: 'GENERATION_NOT_AWAITING_TOOL_OUTPUTS' } });
    const results = await Promise.allSettled([submit('s1', 3), submit('s2', 3), submit('s3', 3)]);
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    await handle.result();
  });
  expect(asked.filter((line) => line.startsWith('acceptToolOutputs'))).toHaveLength(1);
});

test.each([
  ['behind its row', 1, 2],
  ['ahead of its row', 2, 1],
])('a run that waits %s looks at it when a submission names the pause that stands', async (_name, before, now) => {
  const { asked, activities } = scripted([
    calls(1, { clientCalls: 1, pause: before }),
    calls(2, { clientCalls: 1, pause: now }),
    { kind: 'settled' },
  ]);
  await withWorker(activities, async (client) => {
    const handle = await begin(client, freshId());
    await handle.executeUpdate('awaitRest', { args: [{ afterPause: 0 }] });
    await handle.executeUpdate('submitToolOutputs', { args: [{ submissionId: 's1', pause: now }] });
    await handle.result();
  });
  expect(asked.slice(-2)).toEqual([
    `acceptToolOutputs ${JSON.stringify({ pause: now, submissionId: 's1' })}`,
    'runModelStep 3',
  ]);
});

test('a submission whose row is gone is not taken: the pause stands and takes another', async () => {
  const accepted: string[] = [];
  const { activities } = scripted([calls(1, { clientCalls: 1 }), { kind: 'settled' }], {
    acceptToolOutputs: ({ submissionId }: { submissionId: string }) => {
      accepted.push(submissionId);
      return Promise.resolve(submissionId !== 'lost');
    },
  });
  await withWorker(activities, async (client) => {
    const handle = await begin(client, freshId());
    await handle.executeUpdate('awaitRest', { args: [{ afterPause: 0 }] });
    await handle.executeUpdate('submitToolOutputs', { args: [{ submissionId: 'lost', pause: 1 }] });
    for (let taken = false; !taken;) {
      taken = await handle.executeUpdate('submitToolOutputs', { args: [{ submissionId: 'kept', pause: 1 }] }).then(
        () => true,
        () => false,
      );
    }
    await handle.result();
  });
  expect(accepted).toEqual(['lost', 'kept']);
});

test('a row that others changed ends the wait, and the rows are looked at again', async () => {
  const { asked, activities } = scripted([calls(1, { clientCalls: 1 }), { kind: 'settled' }]);
  await withWorker(activities, async (client) => {
    const handle = await begin(client, freshId());
    await handle.executeUpdate('awaitRest', { args: [{ afterPause: 0 }] });
    await handle.signal('rowChanged');
    await handle.result();
  });
  expect(asked.filter((line) => line.startsWith('acceptToolOutputs'))).toEqual([]);
  expect(asked.filter((line) => line.startsWith('runModelStep'))).toHaveLength(2);
});

test('a pause that does not stand is not waited for', async () => {
  const { asked, activities } = scripted([calls(1, { clientCalls: 1 }), { kind: 'settled' }], {
    recordPause: () => Promise.resolve(false),
  });
  await withWorker(activities, async (client) => (await begin(client, freshId())).result());
  expect(asked).toEqual(['runModelStep 1', 'runModelStep 2']);
});

test('a cancelled run settles its row before it ends, and answers its waiters', async () => {
  const { asked, activities } = scripted([calls(1, { clientCalls: 1 })]);
  await withWorker(activities, async (client) => {
    const handle = await begin(client, freshId());
    await handle.executeUpdate('awaitRest', { args: [{ afterPause: 0 }] });
    const waiting = handle.executeUpdate('awaitRest', { args: [{ afterPause: 1 }] });
    await handle.cancel();
    await waiting;
    await expect(handle.result()).rejects.toThrow();
    expect((await handle.describe()).status.name).toBe('CANCELLED');
  });
  expect(asked.at(-1)).toBe('settleGeneration {"code":"GENERATION_CANCELLED"}');
});

test('a final failure of an activity settles the row as failed', async () => {
  const { asked, activities } = scripted([ApplicationFailure.nonRetryable('x', 'internal_error')]);
  await withWorker(activities, async (client) => (await begin(client, freshId())).result());
  expect(asked.at(-1)).toBe('settleGeneration {"code":"GENERATION_FAILED"}');
});

test('a run whose row is gone ends, with nothing to settle', async () => {
  const { asked, activities } = scripted([ApplicationFailure.nonRetryable('ROW_GONE', 'ROW_GONE')]);
  await withWorker(activities, async (client) => (await begin(client, freshId())).result());
  expect(asked).toEqual(['runModelStep 1']);
});

test('twelve waiters do not hinder a submission', async () => {
  const { activities } = scripted([calls(1, { clientCalls: 1 }), { kind: 'settled' }]);
  await withWorker(activities, async (client) => {
    const handle = await begin(client, freshId());
    await handle.executeUpdate('awaitRest', { args: [{ afterPause: 0 }] });
    const waiting = Array.from({ length: 12 }, () => handle.executeUpdate('awaitRest', { args: [{ afterPause: 1 }] }));
    await handle.executeUpdate('submitToolOutputs', { args: [{ submissionId: 's1', pause: 1 }] });
    await Promise.all(waiting);
    await handle.result();
  });
});

describe('under zero retention', () => {
  const sealed = (client: Parameters<Parameters<typeof withWorker>[1]>[0], workflowId: string, scratchMs: number) =>
    client.workflow.start('generation', {
      ...start,
      workflowId,
      args: [{ generationId: workflowId, heartbeatMs: 3_000, scratchMs }],
    });
  const scratch: StepOutcome = { kind: 'settled', scratch: true };

  test('waiters are answered at the settlement; what nobody comes for is removed when its time is over', async () => {
    const { asked, activities } = scripted([scratch]);
    await withWorker(activities, async (client) => {
      const handle = await sealed(client, freshId(), 3_000);
      await handle.executeUpdate('awaitRest', { args: [{ afterPause: 0 }] });
      expect(asked).toEqual(['runModelStep 1']);
      await handle.result();
    });
    expect(asked).toEqual(['runModelStep 1', 'dropContent {}']);
  });

  test('the read of the waiting caller ends the run, and there is nothing left to remove', async () => {
    const { asked, activities } = scripted([scratch]);
    await withWorker(activities, async (client) => {
      const handle = await sealed(client, freshId(), 25_000);
      await handle.executeUpdate('awaitRest', { args: [{ afterPause: 0 }] });
      await handle.signal('contentRead');
      await handle.result();
    });
    expect(asked).toEqual(['runModelStep 1']);
  });

  test('a cancellation that comes after the settlement does not keep content from being removed', async () => {
    const { asked, activities } = scripted([scratch]);
    await withWorker(activities, async (client) => {
      const handle = await sealed(client, freshId(), 1_000);
      await handle.executeUpdate('awaitRest', { args: [{ afterPause: 0 }] });
      await handle.cancel();
      await handle.result();
    });
    expect(asked).toEqual(['runModelStep 1', 'dropContent {}']);
  });

  test('a run that leaves nothing ends at its settlement', async () => {
    const { asked, activities } = scripted([{ kind: 'settled' }]);
    await withWorker(activities, async (client) => (await sealed(client, freshId(), 25_000)).result());
    expect(asked).toEqual(['runModelStep 1']);
  });
});
