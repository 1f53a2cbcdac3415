import type { CallFacts } from '../model-server';
import type { Incident } from './keeper';
import type { Ledger } from './ledger';
import type { Rows, RunRow } from './rows';
import { scriptedFailures } from './stage';

/** Pure: what was seen, held against what must hold. */

/** One thing that must never happen, and where it did. */
export interface Bar {
  name: string;
  /** Each place where it did; there must be none. */
  broken: string[];
}

export interface Seen {
  rows: Rows;
  ledger: Ledger;
  incidents: Incident[];
  modelCalls: CallFacts[];
  /** How often each refund was asked for, by idempotency key. */
  refunds: ReadonlyMap<string, number>;
  openRuns: Set<string>;
  /** What was still under way when the drill gave up waiting. */
  unfinished: string[];
}

/** A call of a model beyond the one whose answer was stored. */
export interface ExtraCall {
  /** `<generation id>:<step>` */
  key: string;
  calls: number;
  /** How many of them had to be made for the step to be stored, failures that the script asks for included. */
  due: number;
  /** When each came and ended, in Unix milliseconds. */
  times: [at: number, endedAt: number | null][];
  /** Its calls whose answer was lost, each with the kill, stop or cancellation under which it was under way. */
  lost: { words: string }[];
}

/**
 * A step's row carries the time at which its transaction began to write, not the one of the commit: a second try that read
 * the rows before the commit may ask the model right after it. Whoever looks later must find the step.
 */
const COMMIT_MS = 1_000;
/** From the end of an answer to the commit of its step, on a machine that is busy: who is killed or cancelled in it loses the answer. */
const STORE_MS = 5_000;
/** A killed process's calls end with its sockets: one that went on for longer was another process's. */
const SOCKETS_MS = 700;
const ATTEMPTS_MAX = 5;
const LOST_TRIES_MAX = 5;

export const isSettled = ({ status }: Pick<RunRow, 'status'>): boolean => status === 'completed' || status === 'failed';

function group<Item>(items: readonly Item[], keyOf: (item: Item) => string | null | undefined): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    if (key === null || key === undefined || key === '') continue;
    groups.set(key, [...(groups.get(key) ?? []), item]);
  }
  return groups;
}

function lost({ rows, ledger, unfinished }: Seen): string[] {
  const byId = new Map(rows.runs.map((run) => [run.id, run]));
  const gone = [...ledger.accepted.keys()].filter((id) => !byId.has(id)).map((id) => `${id}: accepted, and has no row`);
  const stuck = rows.runs.filter(({ status }) => status === 'in_progress').map(({ id }) => `${id}: never came to rest`);
  const deliveries = unfinished.filter((id) => !id.startsWith('gen_')).map((id) => `${id}: never came to rest`);
  return [...gone, ...stuck, ...deliveries];
}

function boughtTwice({ rows, modelCalls }: Seen): string[] {
  const calls = group(modelCalls, ({ key }) => key);
  return rows.steps.flatMap(({ generation_id: id, step, stored_at: storedAt }) => {
    if (storedAt === null) return [];
    const late = (calls.get(`${id}:${String(step)}`) ?? []).filter(({ at }) => at > storedAt.getTime() + COMMIT_MS);
    return late.map(
      ({ at }) => `${id}:${String(step)}: asked for again ${String(at - storedAt.getTime())} ms after it was stored`,
    );
  });
}

const label = (incident: Incident, from: number): string =>
  `${incident.what} at +${((incident.at - from) / 1000).toFixed(1)} s`;

/**
 * Whether an incident can have lost the answer of a call: a kill of a process by ending it, or by coming before its step was
 * stored; an engine by being down, since nothing can be recorded then.
 */
function loses({ part, at, upAt }: Incident, call: CallFacts): boolean {
  const end = call.endedAt ?? call.at;
  if (at > end + STORE_MS) return false;
  if (part === 'api' || part === 'worker') return call.at <= at && call.endedAt !== null && end <= at + SOCKETS_MS;
  return call.at <= (upAt ?? at);
}

/**
 * Under what the answer of a call was lost; null when nothing happened between its arrival and the time in which its step
 * would have been stored.
 */
function lossOf(
  call: CallFacts,
  { incidents, run, from }: { incidents: Incident[]; run: RunRow | undefined; from: number },
): string | null {
  const { at, endedAt } = call;
  const end = (endedAt ?? at) + STORE_MS;
  const incident = incidents.find((one) => loses(one, call));
  if (incident !== undefined) return label(incident, from);
  const cancelledAt = run?.stop_reason === 'cancelled' ? run.completed_at?.getTime() : undefined;
  return cancelledAt !== undefined && at <= cancelledAt && cancelledAt <= end ? 'its cancellation' : null;
}

/** Calls beyond those that were due, each that was lost with the outage under which it was. */
export function extraCalls({ rows, modelCalls, incidents }: Seen, from: number): ExtraCall[] {
  const steps = new Map(rows.steps.map((step) => [`${step.generation_id}:${String(step.step)}`, step]));
  const runs = new Map(rows.runs.map((run) => [run.id, run]));
  return [...group(modelCalls, ({ key }) => key)].flatMap(([key, calls]) => {
    const due = (steps.get(key)?.stored_at == null ? 0 : 1) + scriptedFailures(calls[0]?.model ?? '');
    if (calls.length <= due) return [];
    const run = runs.get(key.split(':')[0] ?? '');
    // What was stored is the answer of one call, and no loss; when another began after it, that one was given up.
    const inOrder = [...calls].sort((one, other) => one.at - other.at);
    const others = steps.get(key)?.stored_at == null ? inOrder : inOrder.slice(0, -1);
    const lost = others.flatMap((call) => {
      const words = lossOf(call, { incidents, run, from });
      return words === null ? [] : [{ words }];
    });
    const times = inOrder.map(({ at, endedAt }): [number, number | null] => [at, endedAt]);
    return [{ key, calls: calls.length, due, times, lost }];
  });
}

/** Extra calls that no outage and no cancellation explains: each one must have been under way at one of its own. */
function unexplained(seen: Seen): string[] {
  return extraCalls(seen, 0)
    .filter(({ calls, due, lost: losses }) => calls - due > losses.length)
    .map(
      ({ key, calls, due, times, lost: losses }) =>
        `${key}: ${String(calls)} calls, ${String(due)} due, and only ${String(losses.length)} were under way at a kill or stop: ${JSON.stringify(times)}`,
    );
}

function doubleWinners({ rows, ledger }: Seen): string[] {
  const winners = new Map(rows.accepted.map((row) => [`${row.generation_id} ${String(row.pause)}`, row]));
  const twice = rows.accepted
    .filter(({ accepted }) => accepted > 1)
    .map((row) => `${row.generation_id}: ${String(row.accepted)} submissions accepted for pause ${String(row.pause)}`);
  const keys = new Set([...winners.values()].flatMap((row) => row.keys));
  const misled = ledger.submissions
    .filter(({ status, key }) => status === 200 && !keys.has(key))
    .map(({ generationId, key }) => `${generationId}: ${key} was answered 200, and is not the accepted one`);
  const settlements = rows.events
    .filter(({ events }) => events > 1)
    .map(({ resource_id: id, events }) => `${id}: settled ${String(events)} times`);
  const byId = new Map(rows.runs.map((run) => [run.id, run]));
  const changed = [...ledger.settled]
    .filter(([id, status]) => byId.has(id) && byId.get(id)?.status !== status)
    .map(([id, status]) => `${id}: was ${status}, and is ${byId.get(id)?.status ?? 'gone'} now`);
  const revived = [...ledger.cancelled]
    .filter((id) => byId.get(id)?.stop_reason !== 'cancelled')
    .map((id) => `${id}: its cancellation was answered 200, and it ended otherwise`);
  return [...twice, ...misled, ...settlements, ...changed, ...revived];
}

/** A pause refuses only what comes second. */
function refusedAlone({ rows, ledger }: Seen): string[] {
  const cancelled = new Set(rows.runs.filter(({ stop_reason: reason }) => reason === 'cancelled').map(({ id }) => id));
  return ledger.submissions
    .filter(({ rivalled, status, generationId }) => !rivalled && status === 409 && !cancelled.has(generationId))
    .map(
      ({ generationId, key, code }) => `${generationId}: ${key}, the only one of its pause, was refused: ${code ?? ''}`,
    );
}

/** No model of the drill fails for good: a run ends badly by its cancellation, or once a call of it was lost five times. */
function failedAlone({ rows }: Seen): string[] {
  const given = new Set(
    rows.steps
      .filter((step) => step.retries - step.provider_failures >= LOST_TRIES_MAX)
      .map((step) => step.generation_id),
  );
  return rows.runs
    .filter(({ id, status, stop_reason: reason }) => status === 'failed' && reason !== 'cancelled' && !given.has(id))
    .map(({ id, error_code: code }) => `${id}: failed with ${code ?? 'nothing'}`);
}

const toolsTwice = ({ refunds }: Seen): string[] =>
  [...refunds].filter(([, times]) => times > 1).map(([key, times]) => `${key}: sent ${String(times)} times`);

function deliveriesLost({ rows }: Seen): string[] {
  const events = new Map(rows.events.map((event) => [event.resource_id, event.events]));
  const silent = rows.runs
    .filter((run) => isSettled(run) && !run.streamed && events.get(run.id) === undefined)
    .map(({ id }) => `${id}: settled without an event`);
  const loud = rows.runs
    .filter((run) => run.streamed && events.get(run.id) !== undefined)
    .map(({ id }) => `${id}: streamed, and has an event`);
  const count = rows.events.reduce((sum, { events: number }) => sum + number, 0);
  const missing =
    count === rows.deliveries.length ? [] : [`${String(count)} events, ${String(rows.deliveries.length)} deliveries`];
  const given = rows.deliveries
    .filter(({ status, attempts }) => status === 'failed' && attempts !== ATTEMPTS_MAX)
    .map(({ id, attempts }) => `${id}: given up after ${String(attempts)} attempts`);
  return [...silent, ...loud, ...missing, ...given];
}

/** Rows and engine must agree: whoever pauses has an open run, whoever is settled has none. */
function disagreements({ rows, openRuns }: Seen): string[] {
  const orphans = rows.runs
    .filter((run) => isSettled(run) && openRuns.has(run.id))
    .map(({ id }) => `${id}: settled, and its run is open`);
  const runless = rows.runs
    .filter(({ status, id }) => status === 'requires_action' && !openRuns.has(id))
    .map(({ id }) => `${id}: paused, and has no open run`);
  return [...orphans, ...runless];
}

/** Everything that must be zero. */
export const barsOf = (seen: Seen): Bar[] => [
  { name: 'lost', broken: lost(seen) },
  { name: 'finished steps bought twice', broken: boughtTwice(seen) },
  { name: 'unexplained extra calls', broken: unexplained(seen) },
  { name: 'failed without a cause', broken: failedAlone(seen) },
  { name: 'tool calls sent twice', broken: toolsTwice(seen) },
  { name: 'double winners', broken: doubleWinners(seen) },
  { name: 'pauses that refused their only answer', broken: refusedAlone(seen) },
  { name: 'deliveries lost', broken: deliveriesLost(seen) },
  { name: 'rows and engine disagree', broken: disagreements(seen) },
];

/** Milliseconds from each kill to the next settled run. */
export function recoveries({ rows, incidents }: Pick<Seen, 'rows' | 'incidents'>): number[] {
  const ends = rows.runs
    .flatMap(({ completed_at: end }) => (end === null ? [] : [end.getTime()]))
    .sort((a, b) => a - b);
  return incidents.flatMap(({ at }) => {
    const next = ends.find((end) => end > at);
    return next === undefined ? [] : [next - at];
  });
}

/** The value below which that share of the numbers lies. Null without numbers. */
export function percentile(numbers: number[], share: number): number | null {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? null;
}
