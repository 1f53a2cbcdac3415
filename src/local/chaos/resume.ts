import { setTimeout as sleep } from 'node:timers/promises';
import type { Answer, AnswerBody } from './caller';
import type { Client } from './load';

const REST_MS = 90_000;
const LOOK_MS = 200;
const PAUSES_MAX = 5;
let submissions = 0;

/** The record of a run once it rests; null when it does not within the time. */
async function restOf({ caller, ledger, stage }: Client, id: string): Promise<AnswerBody | null> {
  const end = performance.now() + REST_MS;
  for (;;) {
    const answer = await caller.untilAnswered(`${stage.at}/generations/${id}`);
    if (answer === null || answer.status !== 200) return null;
    if (answer.body.status !== undefined) ledger.see(id, answer.body.status);
    if (answer.body.status !== 'in_progress') return answer.body;
    if (performance.now() > end) return null;
    await sleep(LOOK_MS);
  }
}

interface Given {
  id: string;
  agentId: string;
  callIds: string[];
}

/** Submits outputs under a key of their own, again and again until there is an answer. The output names the key. */
async function submit(client: Client, { id, agentId, callIds }: Given, rivalled: boolean): Promise<Answer | null> {
  const key = `outputs-${String(++submissions)}`;
  const body = {
    tool_outputs: callIds.map((callId) => ({ tool_call_id: callId, output: { given: key } })),
    idempotency_key: key,
  };
  const path = `${client.stage.at}/agents/${agentId}/generate/${id}/tool-outputs`;
  const answer = await client.caller.untilAnswered(path, body);
  client.ledger.submissions.push({
    generationId: id,
    callId: callIds[0] ?? '',
    key,
    rivalled,
    status: answer?.status ?? null,
    code: answer?.body.error?.code ?? null,
  });
  return answer;
}

export interface Paused {
  id: string;
  agentId: string;
}

/**
 * Answers the pauses of a run until it settles, or as many as are asked for; a share of them by two callers at once.
 * False when the run did not come to rest, or pauses still though all were to be answered.
 */
export async function resume(
  client: Client,
  { id, agentId }: Paused,
  { rivals = 0, pauses = PAUSES_MAX }: { rivals?: number; pauses?: number } = {},
): Promise<boolean> {
  for (let pause = 0; pause < pauses; pause += 1) {
    const record = await restOf(client, id);
    if (record?.status !== 'requires_action') return record !== null;
    const given = { id, agentId, callIds: (record.required_action?.tool_calls ?? []).map((call) => call.id) };
    const rivalled = client.chance.happens(rivals);
    await Promise.all(
      rivalled ? [submit(client, given, true), submit(client, given, true)] : [submit(client, given, false)],
    );
  }
  return pauses < PAUSES_MAX;
}
