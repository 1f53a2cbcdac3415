import { setTimeout as sleep } from 'node:timers/promises';
import { Caller } from './caller';
import type { AnswerBody } from './caller';
import type { Ledger } from './ledger';
import { resume } from './resume';
import type { Chance } from './random';
import type { AgentName, Stage } from './stage';

/** What one client does its work with. */
export interface Client {
  stage: Stage;
  ledger: Ledger;
  chance: Chance;
  caller: Caller;
}

const CLIENTS = 8;
const SAYING = { messages: [{ role: 'user', content: 'Go on.' }] };

const generatePath = ({ stage }: Client, agent: AgentName): string =>
  `${stage.at}/agents/${stage.agents[agent]}/generate`;
/** A key never repeats within a run of the drill. */
let keys = 0;
const freshKey = (): string => `key-${String(++keys)}`;

/** The id in a result, or in the error that a waited run ended with. */
const idIn = (body: AnswerBody): string | undefined => body.id ?? body.error?.meta?.generation_id;

/** Starts a run, so often as it takes to be sure that it is accepted once. Null when the service never answered. */
export async function start(client: Client, agent: AgentName, wait: boolean): Promise<AnswerBody | null> {
  const path = `${generatePath(client, agent)}${wait ? '?wait=true' : ''}`;
  const answer = await client.caller.untilAnswered(path, { ...SAYING, idempotency_key: freshKey() });
  const id = answer === null ? undefined : idIn(answer.body);
  if (answer === null || id === undefined) {
    client.ledger.unanswered += 1;
    return null;
  }
  client.ledger.accept(id, `${agent}, ${wait ? 'waited' : 'background'}`);
  if (answer.body.status !== undefined) client.ledger.see(id, answer.body.status);
  return { ...answer.body, id };
}

/** A run that nobody waits for, asked for once and without a key: what was not answered may run or not. */
async function background(client: Client): Promise<void> {
  const agent = client.chance.pick(['plain', 'tools', 'long', 'flaky'] as const);
  const answer = await client.caller.once(generatePath(client, agent), SAYING);
  if (answer?.status === 202 && answer.body.id !== undefined)
    client.ledger.accept(answer.body.id, `${agent}, background`);
  else client.ledger.unanswered += 1;
}

async function keyedBackground(client: Client): Promise<void> {
  await start(client, client.chance.pick(['plain', 'tools', 'long', 'slow'] as const), false);
}

async function waited(client: Client): Promise<void> {
  await start(client, client.chance.pick(['plain', 'tools', 'slow', 'flaky'] as const), true);
}

async function streamed(client: Client): Promise<void> {
  const { caller, ledger } = client;
  const body = { ...SAYING, stream: true, idempotency_key: freshKey() };
  const answer = await caller.stream(generatePath(client, 'streamer'), body);
  if (answer === null || answer.generationId === null) {
    ledger.unanswered += 1;
    return;
  }
  ledger.accept(answer.generationId, 'streamer, streamed');
  ledger.streams[answer.end] += 1;
}

async function pausedAndResumed(client: Client): Promise<void> {
  const agent = client.chance.pick(['ask', 'twice', 'late'] as const);
  const begun = await start(client, agent, client.chance.happens(0.5));
  if (begun?.id !== undefined)
    await resume(client, { id: begun.id, agentId: client.stage.agents[agent] }, { rivals: 0.3 });
}

/** A pause that nobody ends. */
async function leftPaused(client: Client): Promise<void> {
  await start(client, 'ask', false);
}

async function cancelled(client: Client): Promise<void> {
  const { caller, ledger, chance, stage } = client;
  const begun = await start(client, chance.pick(['slow', 'ask', 'long'] as const), false);
  if (begun?.id === undefined) return;
  await sleep(chance.between(0, 1_500));
  const answer = await caller.untilAnswered(`${stage.at}/generations/${begun.id}/cancel`, {});
  if (answer?.status === 200) ledger.cancelled.add(begun.id);
}

const KINDS = [
  background,
  keyedBackground,
  waited,
  streamed,
  pausedAndResumed,
  pausedAndResumed,
  leftPaused,
  cancelled,
];

/** Clients that keep asking for runs of every kind. */
export class Load {
  private clients: Promise<void>[] = [];
  private isOver = false;
  private readonly failures: unknown[] = [];

  constructor(
    private readonly stage: Stage,
    private readonly ledger: Ledger,
    private readonly chance: Chance,
  ) {}

  begin(): void {
    this.clients = Array.from({ length: CLIENTS }, () => this.client(this.chance.fork()));
  }

  /** A client of the same kind for what is asked beside the load. */
  newClient(): Client {
    const { stage, ledger } = this;
    const chance = this.chance.fork();
    return { stage, ledger, chance, caller: new Caller(stage.local.baseUrls, stage.credential, chance) };
  }

  /** Begins nothing more, and waits until every client has its answers. @throws what a client threw */
  async end(): Promise<void> {
    this.isOver = true;
    await Promise.all(this.clients);
    if (this.failures.length > 0) throw this.failures[0];
  }

  private async client(chance: Chance): Promise<void> {
    const { stage, ledger } = this;
    const client = { stage, ledger, chance, caller: new Caller(stage.local.baseUrls, stage.credential, chance) };
    try {
      while (!this.isOver) {
        await chance.pick(KINDS)(client);
        await sleep(chance.between(50, 600));
      }
    } catch (error) {
      this.failures.push(error);
    }
  }
}
