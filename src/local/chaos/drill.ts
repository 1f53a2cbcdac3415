import { cpSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Report } from '../demo/report';
import { barsOf, extraCalls, isSettled, percentile, recoveries } from './checks';
import type { Bar, Seen } from './checks';
import { copyAside, reconcile, restoreDatabase, restoreEngine } from './copies';
import { Keeper } from './keeper';
import { Ledger } from './ledger';
import { Load, start } from './load';
import { Chance } from './random';
import { resume } from './resume';
import type { Paused } from './resume';
import { openRuns, quiet, readRows, readRuns } from './rows';
import type { RunRow } from './rows';
import { setStage } from './stage';
import type { AgentName, Stage } from './stage';

export interface DrillOptions {
  seed: number;
  kills: number;
  /** Length of the load; what the kills need when left out. */
  seconds: number | null;
}

const QUIET_MS = 150_000;
const GAP_MS = 4_000;
/** Some kills come on the heels of others. */
const AT_ONCE = 0.2;
const RESUMED_MAX = 10;
const LINES_MAX = 200;

interface Drill {
  options: DrillOptions;
  report: Report;
  stage: Stage;
  keeper: Keeper;
  load: Load;
  ledger: Ledger;
  chance: Chance;
  begunAt: number;
  witnesses: Witnesses;
}

/**
 * Runs that stand at a pause when the copies are made. Before the engine is restored `onward` move on to their end and `behind`
 * to their second pause, so that the engine then knows an older pause than the rows; before the database is restored `ahead`
 * move on, so that then it is the rows that know the older one.
 */
const WITNESSES = {
  onward: ['late', 'late', 'late', 'twice', 'ask'],
  behind: ['twice', 'twice'],
  ahead: ['twice', 'twice', 'late'],
} as const satisfies Record<string, AgentName[]>;

type Witnesses = Record<keyof typeof WITNESSES, Paused[]>;

async function makeWitnesses({ load, stage }: Drill): Promise<Witnesses> {
  const make = async (agents: readonly AgentName[]): Promise<Paused[]> => {
    const made = await Promise.all(agents.map((agent) => start(load.newClient(), agent, true)));
    return made.flatMap((body, index) => {
      const agent = agents[index];
      return body?.id === undefined || agent === undefined ? [] : [{ id: body.id, agentId: stage.agents[agent] }];
    });
  };
  const [onward, behind, ahead] = await Promise.all([
    make(WITNESSES.onward),
    make(WITNESSES.behind),
    make(WITNESSES.ahead),
  ]);
  return { onward, behind, ahead };
}

/** The kills of one part of the drill, spread over its time. */
async function kills({ keeper, chance, options, report, begunAt }: Drill, count: number): Promise<void> {
  const gapMs = options.seconds === null ? GAP_MS : (options.seconds * 1000) / options.kills;
  for (let done = 0; done < count; done += 1) {
    await sleep(chance.happens(AT_ONCE) ? chance.between(0, 200) : chance.between(0.25, 1.75) * gapMs);
    const { what, at } = await keeper.kill();
    report.fact(`+${((at - begunAt) / 1000).toFixed(1)} s`, what);
  }
}

/** The load and the kills, with the engine's restore from its older copy in between. */
async function storm(drill: Drill): Promise<void> {
  const { keeper, load, options, report, stage } = drill;
  const early = Math.ceil(options.kills * 0.3);
  const middle = Math.ceil(options.kills * 0.4);
  load.begin();
  await kills(drill, early);
  await keeper.allUp();
  drill.witnesses = await makeWitnesses(drill);
  const copied = await keeper.whileStopped('stop for the copies', () => copyAside(stage.dataDir));
  report.fact('copies', `engine and database were ${copied}`);
  await kills(drill, middle);
  await keeper.allUp();
  const resumed = [
    ...drill.witnesses.onward.map((paused) => resume(load.newClient(), paused)),
    ...drill.witnesses.behind.map((paused) => resume(load.newClient(), paused, { pauses: 1 })),
  ];
  await sleep(2_000); // Their outputs are taken by now, and the slow ones among them are at their last step.
  const restored = await keeper.whileStopped('restore of the engine', () => restoreEngine(stage.dataDir));
  report.fact('engine', `restored from the older copy, ${restored}`);
  report.fact('', `reconcile ${await reconcile(stage)}`);
  await kills(drill, options.kills - early - middle);
  await keeper.allUp();
  await load.end();
  await Promise.all(resumed);
}

/** Answers the pauses of some runs that were left standing, of the named ones first: each must still take its outputs. */
async function resumeSome({ load }: Drill, runs: RunRow[], first: Paused[], not: Paused[]): Promise<string[]> {
  const left = new Set(not.map(({ id }) => id));
  const named = new Set(first.map(({ id }) => id));
  const paused = runs.filter(({ status, id }) => status === 'requires_action' && !left.has(id));
  const others = paused.filter(({ id }) => !named.has(id)).slice(0, RESUMED_MAX);
  const chosen = [...paused.filter(({ id }) => named.has(id)), ...others];
  const ends = await Promise.all(
    chosen.map(async ({ id, agent_id: agentId }) => ((await resume(load.newClient(), { id, agentId })) ? [] : [id])),
  );
  return ends.flat();
}

async function look(drill: Drill, left: string[]): Promise<Seen> {
  const { stage, ledger, keeper } = drill;
  return {
    rows: await readRows(stage.local.databaseUrl),
    ledger,
    incidents: keeper.incidents,
    modelCalls: stage.local.modelServer.facts(),
    refunds: stage.refunds,
    openRuns: await openRuns(stage.local.temporalAddress),
    unfinished: left,
  };
}

function tell({ report, ledger, begunAt }: Drill, seen: Seen): void {
  const { runs, deliveries } = seen.rows;
  const settled = runs.filter(isSettled);
  const paused = runs.filter(({ status }) => status === 'requires_action');
  const times = recoveries(seen);
  const seconds = (share: number): string => `${((percentile(times, share) ?? 0) / 1000).toFixed(1)} s`;
  const extra = extraCalls(seen, begunAt);
  report.heading('What came of it');
  report.fact('accepted', `${String(runs.length)} (${String(ledger.accepted.size)} answered to their callers)`);
  for (const [kind, count] of [...ledger.byKind].sort()) report.fact('', `${String(count)} ${kind}`);
  report.fact('settled', `${String(settled.length)} (${summary(settled)})`);
  report.fact('paused', String(paused.length));
  report.fact('streams', JSON.stringify(ledger.streams));
  report.fact('unanswered', `${String(ledger.unanswered)} requests`);
  report.fact(
    'deliveries',
    `${String(deliveries.length)} (${String(deliveries.filter(({ status }) => status === 'failed').length)} failed five times)`,
  );
  report.fact(
    'model calls',
    `${String(seen.modelCalls.length)} for ${String(seen.rows.steps.filter((step) => step.stored_at !== null).length)} stored steps`,
  );
  report.fact('recovery', `p50 ${seconds(0.5)}, p95 ${seconds(0.95)} (${String(times.length)} kills and stops)`);
  report.fact('extra calls', `${String(extra.length)} steps were asked for more often than they were stored`);
  for (const { key, calls, lost } of extra.slice(0, LINES_MAX))
    report.fact('', `${key}, ${String(calls)} calls: ${lost.map(({ words }) => words).join('; ')}`);
}

function summary(runs: RunRow[]): string {
  const counts = new Map<string, number>();
  for (const { stop_reason: reason, error_code: code } of runs) {
    const name = code ?? reason ?? 'nothing';
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].map(([name, count]) => `${String(count)} ${name}`).join(', ');
}

/** The database goes back to the copy; the runs that it knows must still end or pause. */
async function databaseRestored(drill: Drill): Promise<Bar[]> {
  const { keeper, report, stage, load, witnesses } = drill;
  await Promise.all(witnesses.ahead.map((paused) => resume(load.newClient(), paused, { pauses: 1 })));
  const restored = await keeper.whileStopped('restore of the database', () => restoreDatabase(stage.dataDir));
  const told = await reconcile(stage);
  const left = await quiet(stage.local.databaseUrl, QUIET_MS);
  const unresumed = await resumeSome(drill, await readRuns(stage.local.databaseUrl), witnesses.ahead, []);
  const runs = await readRuns(stage.local.databaseUrl);
  const settled = runs.filter(isSettled).length;
  const paused = runs.filter(({ status }) => status === 'requires_action').length;
  report.fact('database', `restored from the older copy, ${restored}`);
  report.fact('', `reconcile ${told}`);
  report.fact('', `it knows ${String(runs.length)} runs: settled ${String(settled)}, paused ${String(paused)}`);
  return [
    { name: 'lost after the restore of the database', broken: left },
    { name: 'pauses that did not resume after it', broken: unresumed },
  ];
}

function tellBars({ report }: Drill, bars: Bar[]): void {
  for (const { name, broken } of bars) {
    report.line(`   ${name} ${String(broken.length)}`);
    for (const line of broken.slice(0, LINES_MAX)) report.line(`      ${line}`);
  }
}

/** Keeps the output of the processes where a bar broke: the data folder goes at the end. */
function keepLogs({ report, stage }: Drill): void {
  const kept = mkdtempSync(join(tmpdir(), 'svc-chaos-logs-'));
  cpSync(stage.local.logs, kept, { recursive: true });
  report.fact('logs', kept);
}

/**
 * One drill from beginning to end. @returns whether every bar held
 * @throws when the service cannot be started or does not come up again
 */
export async function runDrill(
  options: DrillOptions,
  {
    report,
    signal,
    begun,
  }: { report: Report; signal: AbortSignal; begun: (part: { stop: () => Promise<void> }) => void },
): Promise<boolean> {
  const chance = new Chance(options.seed);
  const stage = await report.step('Start two APIs, two workers and their engines', () =>
    setStage(chance.fork(), signal, begun),
  );
  const keeper = new Keeper(stage.local, chance.fork());
  const ledger = new Ledger();
  const load = new Load(stage, ledger, chance.fork());
  const begunAt = Date.now();
  const witnesses: Witnesses = { onward: [], behind: [], ahead: [] };
  const drill: Drill = { options, report, stage, keeper, load, ledger, chance: chance.fork(), begunAt, witnesses };
  begun({ stop: () => keeper.end() });
  keeper.begin();
  let holds = false;
  try {
    await report.step(`Kill ${String(options.kills)} times under load`, () => storm(drill));
    const bars = await report.step('Wait for quiet and look', async () => {
      const { behind, ahead } = drill.witnesses;
      const unresumed = await resumeSome(drill, await readRuns(stage.local.databaseUrl), behind, ahead);
      const left = await quiet(stage.local.databaseUrl, QUIET_MS);
      const seen = await look(drill, left);
      tell(drill, seen);
      return [...barsOf(seen), { name: 'pauses that did not resume', broken: unresumed }];
    });
    tellBars(drill, bars);
    const later = await report.step('Restore the database from its older copy', () => databaseRestored(drill));
    tellBars(drill, later);
    holds = [...bars, ...later].every(({ broken }) => broken.length === 0);
  } finally {
    if (!holds) keepLogs(drill);
  }
  return holds;
}
