/** `npm run chaos -- --seed N --kills K [--seconds S]`: kills everything at random under load and says what came of it. */
import { parseArgs } from 'node:util';
import { inOneLine, Report } from './demo/report';
import { runDrill } from './chaos/drill';
import type { DrillOptions } from './chaos/drill';
import { whenAsked } from './serve';

const INTERRUPTED = 130;
const USAGE = 'npm run chaos -- --seed N --kills K [--seconds S], each a whole number.';

/** The options of the command line; null when they are not understood. */
function optionsOf(given: string[]): DrillOptions | null {
  const whole = (text: string | undefined, least: number): number =>
    text !== undefined && /^\d{1,9}$/.test(text) && Number(text) >= least ? Number(text) : Number.NaN;
  try {
    const options = { seed: { type: 'string' }, kills: { type: 'string' }, seconds: { type: 'string' } } as const;
    const { values } = parseArgs({ args: given, options });
    const seed = whole(values.seed ?? String(Date.now() % 1_000_000), 0);
    const kills = whole(values.kills ?? '10', 1);
    const seconds = values.seconds === undefined ? null : whole(values.seconds, 1);
    return [seed, kills, seconds].some(Number.isNaN) ? null : { seed, kills, seconds };
  } catch {
    return null;
  }
}

/** Runs the drill. @returns the status to end with: 0 when every bar held, 1 when one broke */
async function main(given: string[]): Promise<number> {
  const options = optionsOf(given);
  if (options === null) {
    process.stderr.write(`${USAGE}\n`);
    return 2;
  }
  const report = new Report(process.stdout);
  report.line(`seed ${String(options.seed)}, kills ${String(options.kills)}`);
  const giveUp = new AbortController();
  const begun: { stop: () => Promise<void> }[] = [];
  const asked = whenAsked(giveUp).then((): never => {
    throw new Error('interrupted');
  });
  try {
    const drill = runDrill(options, { report, signal: giveUp.signal, begun: (part) => begun.push(part) });
    const holds = await Promise.race([drill, asked]);
    report.line(holds ? '\nEvery bar holds.' : `\nA bar is broken: the same seed is --seed ${String(options.seed)}.`);
    return holds ? 0 : 1;
  } catch (error) {
    if (giveUp.signal.aborted) return INTERRUPTED;
    process.stderr.write(`\n${inOneLine(error)}\n`);
    return 1;
  } finally {
    for (const { stop } of begun.reverse()) await stop();
  }
}

void main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error: unknown) => {
    process.stderr.write(`The stop failed: ${inOneLine(error)}\n`);
    process.exit(1);
  },
);
