import { DefaultLogger, Runtime } from '@temporalio/worker';
import { pino } from 'pino';
import type { Socket } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { mailActivities } from '../../src/activities/mail.activities';
import { smtpMailer } from '../../src/api/auth/mailer';
import type { Mailer } from '../../src/api/auth/mailer';
import { flushKeyUse } from '../../src/api/auth/service';
import { config } from '../../src/api/core/config';
import { starts as runStarts } from '../../src/api/core/starts';
import { query, queryOne } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { log, setLogLevel } from '../../src/api/core/log';
import { randomText } from '../../src/api/core/random';
import { closeEngine, engine, engineConnection, startRun } from '../../src/api/core/temporal';
import { setMailboxReader } from '../../src/api/dev/mailbox';
import { devRoutes } from '../../src/api/dev/routes';
import { startWorkers } from '../../src/workers';
import { codeMailId } from '../../src/workflows/mail.contract';
import { useService } from '../support/app';
import { historyText, tablesHolding } from '../support/clear-text';
import { eventually } from '../support/eventually';

/** Waits for what answers did not wait for. */
const nothingLeft = () => Promise.all([runStarts.drain(), flushKeyUse()]);

const service = useService();

interface Refusal {
  code: number;
  text: string;
}

const received: { to: string; text: string }[] = [];
const refusals = new Map<string, Refusal>();
/** Addresses whose next connection is cut: before the recipient is answered, or when the whole text is there. */
const cuts = new Map<string, 'recipient' | 'text'>();
const sockets = new Map<number, Socket>();
const tries: string[] = [];

function cut(address: string, at: 'recipient' | 'text', port: number): boolean {
  if (cuts.get(address) !== at) return false;
  cuts.delete(address);
  return sockets.get(port)?.destroy() !== undefined;
}

const smtp = new SMTPServer({
  authOptional: true,
  disabledCommands: ['AUTH', 'STARTTLS'],
  logger: false,
  onRcptTo({ address }, session, done) {
    tries.push(address);
    if (cut(address, 'recipient', session.remotePort)) return;
    const refusal = refusals.get(address);
    done(refusal === undefined ? null : Object.assign(new Error(refusal.text), { responseCode: refusal.code }));
  },
  onData(stream, session, done) {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => {
      const [to] = session.envelope.rcptTo;
      received.push({ to: to?.address ?? '', text: Buffer.concat(chunks).toString() });
      if (!cut(to?.address ?? '', 'text', session.remotePort)) done();
    });
  },
});

smtp.server.on('connection', (socket: Socket) => sockets.set(socket.remotePort ?? 0, socket));

let mailer: Mailer;
let sendCode: (input: { codeId: string }) => Promise<void>;

beforeAll(async () => {
  await new Promise<void>((resolve) => {
    smtp.listen(0, '127.0.0.1', resolve);
  });
  const address = smtp.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  mailer = smtpMailer(`smtp://127.0.0.1:${String(port)}`, 'Agents <no-reply@svc.test>');
  const activities = mailActivities({ mailer });
  sendCode = (input) => activities.sendCode(input);
});

afterAll(
  () =>
    new Promise<void>((resolve) => {
      smtp.close(resolve);
    }),
);

async function codeRequest(): Promise<{ codeId: string; email: string }> {
  const codeId = newId('code');
  const email = `${randomText(12).toLowerCase()}@smtp.test`;
  await query(
    `insert into sign_in_codes (id, email, expires_at, created_at) values ($1, $2, now() + interval '10 minutes', now())`,
    [codeId, email],
  );
  return { codeId, email };
}

const mailsTo = (email: string): string[] => received.filter(({ to }) => to === email).map(({ text }) => text);
const codeIn = (mail: string | undefined): string => /code is (\d{6})\./.exec(mail ?? '')?.[1] ?? '';
const verify = async (email: string, code: string): Promise<number> =>
  (await service.client().post('/v1/auth/code/verify', { email, code })).status;
const suppression = (email: string): Promise<{ reason: string } | null> =>
  queryOne('select reason from suppressed_addresses where email = $1', [email]);

describe('mailing a code', () => {
  test('sends a code that signs in, and marks its row as seen', async () => {
    const { codeId, email } = await codeRequest();
    await sendCode({ codeId });
    const [mail] = mailsTo(email);
    expect(mail).toContain('Subject: Your sign-in code');
    expect(mail).toContain('From: Agents <no-reply@svc.test>');
    const row = await queryOne<{ run_seen_at: Date | null }>('select run_seen_at from sign_in_codes where id = $1', [
      codeId,
    ]);
    expect(row?.run_seen_at).toBeInstanceOf(Date);
    expect(await verify(email, codeIn(mail))).toBe(200);
  });

  test('[auth 3] makes a fresh code at a retry, and the former one stops; the end stays', async () => {
    const { codeId, email } = await codeRequest();
    const ends = () => queryOne('select expires_at from sign_in_codes where id = $1', [codeId]);
    const end = await ends();
    await sendCode({ codeId });
    await sendCode({ codeId });
    expect(await ends()).toEqual(end);
    const [first, second] = mailsTo(email).map(codeIn);
    expect(second).toMatch(/^\d{6}$/);
    if (first !== second) expect(await verify(email, first ?? '')).toBe(401);
    expect(await verify(email, second ?? '')).toBe(200);
  });

  test('[auth 3] sends nothing for a row that is expired', async () => {
    const { codeId, email } = await codeRequest();
    await query(`update sign_in_codes set expires_at = now() where id = $1`, [codeId]);
    await sendCode({ codeId });
    expect(mailsTo(email)).toEqual([]);
  });

  test('[auth 3] sends nothing for a row that was used or superseded: ROW_GONE', async () => {
    const { codeId, email } = await codeRequest();
    await query(`delete from sign_in_codes where id = $1`, [codeId]);
    await expect(sendCode({ codeId })).rejects.toMatchObject({ type: 'ROW_GONE', nonRetryable: true });
    expect(mailsTo(email)).toEqual([]);
  });

  test('sends nothing to a suppressed address, and reports success', async () => {
    const { codeId, email } = await codeRequest();
    await query(`insert into suppressed_addresses values ($1, 'complaint', now())`, [email]);
    await sendCode({ codeId });
    expect(mailsTo(email)).toEqual([]);
    expect(await suppression(email)).toEqual({ reason: 'complaint' });
  });

  test('suppresses an address that its server refuses for good', async () => {
    const { codeId, email } = await codeRequest();
    refusals.set(email, { code: 550, text: 'no such user here' });
    await sendCode({ codeId });
    expect(await suppression(email)).toEqual({ reason: 'bounce' });
    refusals.delete(email);
    await sendCode({ codeId });
    expect(mailsTo(email)).toEqual([]);
  });

  test.each<[string, Refusal]>([
    ['for the moment', { code: 451, text: 'try again later' }],
    ['for reasons of policy', { code: 554, text: '5.7.1 relay access denied' }],
  ])('fails, and suppresses nothing, when the server refuses %s', async (_case, refusal) => {
    const { codeId, email } = await codeRequest();
    refusals.set(email, refusal);
    await expect(sendCode({ codeId })).rejects.toMatchObject({ responseCode: refusal.code });
    expect(await suppression(email)).toBeNull();
  });
});

/** The value below which a quarter of them lies: what a busy machine adds lies above. */
const lowerQuarter = (values: number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 4)] ?? 0;

async function timed(act: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await act();
  return performance.now() - startedMs;
}

describe('known, unknown and suppressed addresses', () => {
  const REQUESTS = 40;
  const ROUNDS_MAX = 3;
  const kinds = ['known', 'unknown', 'suppressed'] as const;
  const addressOf = (kind: string, round: number, at: number): string =>
    `${kind}-${String(round)}-${String(at)}@time.test`;
  const ask = async (email: string): Promise<void> => {
    expect((await service.client().post('/v1/auth/code', { email })).status).toBe(202);
  };
  const started: string[] = [];
  const start = (id: string): Promise<unknown> => {
    started.push(id);
    return startRun({
      type: 'mail',
      id: `mail/${id}`,
      args: [{ codeId: id }],
      labels: { resourceType: 'sign_in_code', resourceId: id },
      memo: { trigger: 'test' },
    });
  };

  /** Nobody works on them here; the worker of another test would. */
  async function endRuns(): Promise<void> {
    await nothingLeft();
    const rows = await query<{ id: string }>(`delete from sign_in_codes where email like '%@time.test' returning id`);
    const ids = [...rows.map(({ id }) => id), ...started];
    await Promise.all(ids.map((id) => engine().workflow.getHandle(`mail/${id}`).terminate('by a test')));
  }

  async function spreadAndRoundTrip(round: number): Promise<{ spread: number; roundTrip: number }> {
    const times = { known: [] as number[], unknown: [] as number[], suppressed: [] as number[] };
    const starts: number[] = [];
    for (let at = 0; at < REQUESTS; at += 1) {
      // Each kind is first, second and third as often as the others.
      for (let place = 0; place < kinds.length; place += 1) {
        const kind = kinds[(at + place) % kinds.length] ?? 'known';
        await nothingLeft(); // What the request before left behind is no part of this one.
        times[kind].push(await timed(() => ask(addressOf(kind, round, at))));
      }
      await nothingLeft();
      starts.push(await timed(() => start(newId('code'))));
    }
    const quarters = kinds.map((kind) => lowerQuarter(times[kind]));
    return { spread: Math.max(...quarters) - Math.min(...quarters), roundTrip: lowerQuarter(starts) };
  }

  test('[auth 1] take the same time: none waits for the engine where another does not', async () => {
    const all = Array.from({ length: ROUNDS_MAX * REQUESTS }, (_each, at) => [
      Math.floor(at / REQUESTS),
      at % REQUESTS,
    ]);
    const emails = (kind: string): string[] => all.map(([round = 0, at = 0]) => addressOf(kind, round, at));
    await query(
      `insert into users (id, email, email_verified, created_at, updated_at)
       select 'user_time' || ordinality, email, true, now(), now() from unnest($1::text[]) with ordinality as t(email, ordinality)`,
      [emails('known')],
    );
    await query(`insert into suppressed_addresses select email, 'manual', now() from unnest($1::text[]) as t(email)`, [
      emails('suppressed'),
    ]);
    for (let at = 0; at < 10; at += 1) await ask(addressOf('first', 0, at));
    const measured: { spread: number; roundTrip: number }[] = [];
    // What is the same is so in one round of three; a step too many is there in each.
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      measured.push(await spreadAndRoundTrip(round));
      if (measured.some(({ spread, roundTrip }) => spread < roundTrip / 2)) break;
    }
    await endRuns();
    expect(measured.filter(({ spread, roundTrip }) => spread < roundTrip / 2)).not.toEqual([]);
  }, 60_000);
});

describe('through the engine', () => {
  const fresh = (): string => `${randomText(12).toLowerCase()}@smtp.test`;
  const runOf = async (email: string): Promise<string> => {
    const row = await queryOne<{ id: string }>('select id from sign_in_codes where email = $1', [email]);
    return `mail/${row?.id ?? ''}`;
  };
  const result = (run: string): Promise<unknown> => engine().workflow.getHandle(run).result();

  test('[auth 3] [engine 3] refusals and lost connections end as they should, and the code is in the mail alone', async () => {
    const lines: string[] = [];
    const stream = (log as unknown as Record<symbol, { write: (line: string) => boolean }>)[pino.symbols.streamSym];
    if (stream === undefined) throw new Error('the log has no stream');
    const written = jest.spyOn(stream, 'write').mockImplementation((line) => lines.push(line) > 0);
    setLogLevel('trace');
    Runtime.install({ logger: new DefaultLogger('ERROR') });
    const workers = await startWorkers({ mailer });
    try {
      const people = { plain: fresh(), gone: fresh(), later: fresh(), recipient: fresh(), text: fresh() };
      refusals.set(people.gone, { code: 550, text: '5.1.1 no such user here' });
      refusals.set(people.later, { code: 451, text: '4.7.1 greylisted, try again' });
      cuts.set(people.recipient, 'recipient').set(people.text, 'text');
      const emails = Object.values(people);
      for (const email of emails) expect((await service.client().post('/v1/auth/code', { email })).status).toBe(202);
      const superseded = newId('code');
      const labels = { resourceType: 'sign_in_code', resourceId: superseded };
      const id = codeMailId(superseded);
      await startRun({ type: 'mail', id, args: [{ codeId: superseded }], labels, memo: { trigger: 'sweep' } });
      await result(id);
      // The worker also takes what the tests above left to it.
      await eventually(() => expect(tries).toContain(people.later), { timeoutMs: 30_000 });
      refusals.delete(people.later);
      const runs = await Promise.all(emails.map(runOf));
      await Promise.all(runs.map(result));

      expect(emails.map((email) => tries.filter((tried) => tried === email).length)).toEqual([1, 1, 2, 2, 2]);
      expect(await suppression(people.gone)).toEqual({ reason: 'bounce' });
      for (const email of [people.plain, people.later, people.recipient, people.text])
        expect(await suppression(email)).toBeNull();
      expect(emails.map((email) => mailsTo(email).length)).toEqual([1, 0, 1, 1, 2]);
      // The mail whose end was unknown came too; its code was replaced by that of the next try.
      const [former = '', last = ''] = mailsTo(people.text).map(codeIn);
      if (former !== last) expect(await verify(people.text, former)).toBe(401);

      const codes = emails.flatMap((email) => mailsTo(email).map(codeIn));
      expect(codes).toHaveLength(5);
      const texts = [...codes, ...emails];
      expect(await tablesHolding(codes)).toEqual([]);
      const histories = (await Promise.all(runs.map(historyText))).join('\n');
      expect(histories).toContain('sendCode');
      expect(texts.filter((text) => histories.includes(text))).toEqual([]);

      expect(await verify(people.text, last)).toBe(200);
      for (const email of [people.plain, people.later, people.recipient])
        expect(await verify(email, codeIn(mailsTo(email)[0]))).toBe(200);
      const logged = lines.join('\n');
      expect(logged).toContain('"route":"/v1/auth/code/verify"');
      expect(
        texts.filter((text) => new RegExp(`(?<![\\w.])${text.replaceAll('.', '\\.')}(?![\\w])`).test(logged)),
      ).toEqual([]);
    } finally {
      await workers.stop();
      setLogLevel(config().LOG_LEVEL);
      written.mockRestore();
    }
  }, 60_000);
});

test('a namespace that is set to nothing is as good as not set', () => {
  const given = process.env.TEMPORAL_NAMESPACE;
  process.env.TEMPORAL_NAMESPACE = '';
  try {
    expect(engineConnection().namespace).toBe(config().TEMPORAL_NAMESPACE);
  } finally {
    process.env.TEMPORAL_NAMESPACE = given;
  }
});

describe('an engine that cannot be reached', () => {
  test('delays no answer, and leaves the row to the sweep', async () => {
    const settings = config();
    const address = settings.TEMPORAL_ADDRESS;
    const email = `${randomText(12).toLowerCase()}@smtp.test`;
    await closeEngine();
    settings.TEMPORAL_ADDRESS = '127.0.0.1:1';
    const startedMs = performance.now();
    try {
      expect((await service.client().post('/v1/auth/code', { email })).status).toBe(202);
      expect(performance.now() - startedMs).toBeLessThan(3_000);
      await nothingLeft();
    } finally {
      settings.TEMPORAL_ADDRESS = address;
      await closeEngine();
    }
    const row = await queryOne<{ hash: Buffer | null; run_seen_at: Date | null }>(
      'select hash, run_seen_at from sign_in_codes where email = $1',
      [email],
    );
    expect(row).toEqual({ hash: null, run_seen_at: null });
  });
});

describe('GET /dev/mailbox', () => {
  const read = (query_: string) => service.client().get(`/dev/mailbox${query_}`);
  const mail = { to: 'ana@x.test', subject: 's', text: 't', code: '012345', created_at: '2026-03-01T12:00:00.000Z' };

  test('is not there before local mode hands a mailbox in', async () => {
    expect(await read('?to=ana@x.test')).toMatchObject({ status: 404, body: { error: { code: 'not_found' } } });
  });

  test('answers the mails to an address', async () => {
    setMailboxReader((to) => Promise.resolve([mail].filter((kept) => kept.to === to)));
    expect(await read('?to=%20Ana@X.test')).toMatchObject({ status: 200, body: { data: [mail] } });
    expect((await read('?to=ben@x.test')).body).toEqual({ data: [] });
  });

  test.each(['', '?to=', '?to=a@x.test&limit=1'])('refuses the query %j', async (query_) => {
    expect(await read(query_)).toMatchObject({ status: 400, body: { error: { code: 'bad_request' } } });
  });

  test('exists in local mode only', () => {
    const settings = config();
    settings.localMode = false;
    try {
      expect(devRoutes()).toEqual([]);
    } finally {
      settings.localMode = true;
    }
  });
});
