import { SMTPServer } from 'smtp-server';
import { mailActivities } from '../../src/activities/mail.activities';
import { smtpMailer } from '../../src/api/auth/mailer';
import { drainAuth } from '../../src/api/auth/service';
import { config } from '../../src/api/core/config';
import { query, queryOne } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { randomText } from '../../src/api/core/random';
import { closeEngine } from '../../src/api/core/temporal';
import { setMailboxReader } from '../../src/api/dev/mailbox';
import { devRoutes } from '../../src/api/dev/routes';
import { useService } from '../support/app';

const service = useService();

interface Refusal {
  code: number;
  text: string;
}

const received: { to: string; text: string }[] = [];
const refusals = new Map<string, Refusal>();

const smtp = new SMTPServer({
  authOptional: true,
  disabledCommands: ['AUTH', 'STARTTLS'],
  logger: false,
  onRcptTo({ address }, _session, done) {
    const refusal = refusals.get(address);
    done(refusal === undefined ? null : Object.assign(new Error(refusal.text), { responseCode: refusal.code }));
  },
  onData(stream, session, done) {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => {
      const [to] = session.envelope.rcptTo;
      received.push({ to: to?.address ?? '', text: Buffer.concat(chunks).toString() });
      done();
    });
  },
});

let sendCode: (input: { codeId: string }) => Promise<void>;

beforeAll(async () => {
  await new Promise<void>((resolve) => {
    smtp.listen(0, '127.0.0.1', resolve);
  });
  const address = smtp.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const mailer = smtpMailer(`smtp://127.0.0.1:${String(port)}`, 'Agents <no-reply@svc.test>');
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

  test('[auth 3] makes a fresh code at a retry, and the former one stops', async () => {
    const { codeId, email } = await codeRequest();
    await sendCode({ codeId });
    await sendCode({ codeId });
    const [first, second] = mailsTo(email).map(codeIn);
    expect(second).toMatch(/^\d{6}$/);
    if (first !== second) expect(await verify(email, first ?? '')).toBe(401);
    expect(await verify(email, second ?? '')).toBe(200);
  });

  test.each([
    ['expired', `update sign_in_codes set expires_at = now() where id = $1`],
    ['used or superseded', `delete from sign_in_codes where id = $1`],
  ])('[auth 3] sends nothing for a row that is %s', async (_case, change) => {
    const { codeId, email } = await codeRequest();
    await query(change, [codeId]);
    await sendCode({ codeId });
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
      await drainAuth();
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
