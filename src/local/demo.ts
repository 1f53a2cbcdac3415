/** `npm run demo`: the main job of the service before one's eyes, and then the service goes on until Ctrl-C. */
import { makeProject, signIn } from './demo/account';
import { makeAgent, makeWebhook } from './demo/agent';
import { checkDeliveries } from './demo/deliveries';
import { sayFarewell } from './demo/farewell';
import { killedRun } from './demo/killed-run';
import { inOneLine, Report } from './demo/report';
import { backgroundRun, waitedRun } from './demo/runs';
import { streamedRun } from './demo/streamed-run';
import type { Scene, Stage, VendorAccount } from './demo/stage';
import { keptPort, setting } from './local-settings';
import type { Environment } from './local-settings';
import { startReceiver } from './receiver';
import type { Receiver } from './receiver';
import { whenAsked } from './serve';
import { startLocal } from './supervisor';
import type { Local } from './supervisor';

const VENDOR_MODEL = 'gpt-4.1-mini';
/** The default of 30 s outlasts restarts of an engine; whoever watches a worker die need not wait that long. */
const HEARTBEAT_SECONDS = '5';
const INTERRUPTED = 130;

/** The real vendor's account, where the environment has one. */
function vendorOf(environment: Environment): VendorAccount | null {
  const apiKey = setting(environment, 'OPENAI_API_KEY');
  if (apiKey === undefined) return null;
  return {
    apiKey,
    model: setting(environment, 'OPENAI_MODEL') ?? VENDOR_MODEL,
    baseUrl: setting(environment, 'OPENAI_BASE_URL') ?? null,
  };
}

/** What has to be ended, in the order in which it was begun. */
interface Begun {
  receivers: Receiver[];
  local: Local | undefined;
}

async function setStage(report: Report, begun: Begun, signal: AbortSignal): Promise<Stage> {
  const { env } = process;
  const dataDir = setting(env, 'DATA_DIR') ?? '.data';
  const heartbeat = setting(env, 'CALL_HEARTBEAT_SECONDS') ?? HEARTBEAT_SECONDS;
  const local = await startLocal({
    dataDir,
    signal,
    env: {
      CALL_HEARTBEAT_SECONDS: heartbeat,
      // The code is read from the mailbox; nobody reads mail to the demo's address.
      SMTP_URL: '',
      // The key goes the way of a customer's: into a secret of the project, and nowhere else.
      OPENAI_API_KEY: undefined,
    },
  });
  begun.local = local;
  // The same ports at the next demo on this data: the tools and webhooks of earlier ones still find somebody there.
  const orders = await startReceiver({ port: await keptPort(dataDir, 'demo-orders') });
  begun.receivers.push(orders);
  orders.respond(({ path }) => ({ body: { order_id: path.split('/').at(-1) ?? '', status: 'delivered' } }));
  const hooks = await startReceiver({ port: await keptPort(dataDir, 'demo-hooks') });
  begun.receivers.push(hooks);
  report.fact('API', local.baseUrl);
  report.fact('Temporal', local.temporalUiUrl ?? local.temporalAddress);
  const processes = local.processes().map(({ name, pid }) => `${name} ${String(pid)}`);
  report.fact('processes', processes.join(', '));
  return {
    report,
    local,
    orders,
    hooks,
    vendor: vendorOf(env),
    namespace: setting(env, 'TEMPORAL_NAMESPACE') ?? 'default',
    heartbeatSeconds: Number(heartbeat),
  };
}

async function show(stage: Stage): Promise<void> {
  const { report } = stage;
  const { session, email } = await report.step('Sign in with a mailed code', () => signIn(stage));
  const account = await report.step('Make a project and an API key', () => makeProject(stage, session, email));
  const agent = await report.step('Make a provider, two tools and an agent', () => makeAgent(stage, account));
  const webhook = await report.step('Register a webhook', () => makeWebhook(stage, account));
  const scene: Scene = { ...stage, ...account, ...agent, webhook };
  const waited = await report.step('Wait for a run that pauses for our tool', () => waitedRun(scene));
  const background = await report.step('Start a run and look at it later', () => backgroundRun(scene));
  await report.step('Read an answer as it comes', () => streamedRun(scene));
  const killed = await report.step('Kill the worker in the middle of a run', () => killedRun(scene));
  await report.step('Verify the deliveries', () => checkDeliveries(scene, [waited, background, killed]));
  sayFarewell(scene, killed);
}

async function end({ local, receivers }: Begun): Promise<void> {
  await local?.stop();
  await Promise.all(receivers.map((receiver) => receiver.close()));
}

/** Runs the demo. @returns the status to end with */
async function main(given: string[]): Promise<number> {
  const unknown = given.find((argument) => argument !== '--exit');
  if (unknown !== undefined) {
    process.stderr.write(`${unknown} is not understood; the only argument is --exit.\n`);
    return 2;
  }
  const report = new Report(process.stdout);
  const giveUp = new AbortController();
  const asked = whenAsked(giveUp);
  const begun: Begun = { receivers: [], local: undefined };
  try {
    const stage = await report.step('Start PostgreSQL, Temporal, API and worker', () =>
      setStage(report, begun, giveUp.signal),
    );
    await show(stage);
    if (given.includes('--exit')) return 0;
    report.line('\nEverything keeps running. Ctrl-C stops it.\n');
    await asked;
    return 0;
  } catch (error) {
    if (giveUp.signal.aborted) return INTERRUPTED;
    process.stderr.write(`\n${inOneLine(error)}\n`);
    return 1;
  } finally {
    await end(begun);
  }
}

void main(process.argv.slice(2)).then(
  (status) => process.exit(status),
  (error: unknown) => {
    process.stderr.write(`The stop failed: ${inOneLine(error)}\n`);
    process.exit(1);
  },
);
