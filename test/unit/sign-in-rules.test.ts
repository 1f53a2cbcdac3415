import { MailAddress } from '../../src/api/auth/addresses';
import { secondsUntilAllowed } from '../../src/api/auth/caps';
import { codeMailText } from '../../src/api/auth/code-mail';
import { refreshCookie } from '../../src/api/auth/cookie';
import { isRecipientRefused } from '../../src/api/auth/mailer';

describe('caps of code requests', () => {
  const now = 1_000_000_000_000;
  const ago = (...seconds: number[]): number[] => seconds.map((each) => now - each * 1000);
  const caps = { perMinute: 1, perDay: 3 };

  test.each([
    ['no request yet', [], null],
    ['one 59.5 s ago', ago(59.5), 1],
    ['one 10 s ago', ago(10), 50],
    ['one exactly a minute ago', ago(60), null],
    ['two within the day', ago(61, 7_200), null],
    ['three within the day, the oldest an hour from its edge', ago(61, 7_200, 82_800), 3_600],
    ['three, the oldest exactly a day ago', ago(61, 7_200, 86_400), null],
    ['both caps hold: the longer wait counts', ago(10, 7_200, 82_800), 3_600],
    ['more than the day holds: the third newest decides', ago(61, 7_200, 10_800, 82_800), 75_600],
  ])('%s', (_case, accepted, expected) => {
    expect(secondsUntilAllowed(accepted, now, caps)).toBe(expected);
  });

  test('two a minute leave room for a second one', () => {
    expect(secondsUntilAllowed(ago(5), now, { perMinute: 2, perDay: 10 })).toBeNull();
    expect(secondsUntilAllowed(ago(5, 20), now, { perMinute: 2, perDay: 10 })).toBe(40);
  });
});

describe('addresses', () => {
  test.each([
    ['  Ana@Acme.TEST\n', 'ana@acme.test'],
    ['a.b+c@x.test', 'a.b+c@x.test'],
    ["o'neil@x.test", "o'neil@x.test"],
    [`${'a'.repeat(247)}@x.test`, `${'a'.repeat(247)}@x.test`],
  ])('%j is taken as %j', (given, expected) => {
    expect(MailAddress.parse(given)).toBe(expected);
  });

  test.each([
    '',
    'ana',
    '@x.test',
    'ana@',
    'a@b@x.test',
    'a b@x.test',
    'a@x.test,b',
    'a@x.test\r\nBcc: b',
    '<a@x.test>',
    '"a"@x.test',
    'a\u0007@x.test',
    `${'a'.repeat(248)}@x.test`,
  ])('%j is refused', (given) => {
    expect(MailAddress.safeParse(given).success).toBe(false);
  });
});

describe('the cookie of a session', () => {
  const options = { maxAgeSeconds: 2_592_000 };

  test('is out of reach of scripts and goes to the sign-in routes only', () => {
    expect(refreshCookie('svc_rt_x', { ...options, baseUrl: 'http://localhost:3000' })).toBe(
      'svc_refresh=svc_rt_x; HttpOnly; SameSite=Lax; Path=/v1/auth; Max-Age=2592000',
    );
  });

  test('is Secure where the service is reached by https', () => {
    expect(refreshCookie('svc_rt_x', { ...options, baseUrl: 'https://api.example.test' })).toMatch(/; Secure$/);
  });
});

describe('the mail of a code', () => {
  const now = new Date('2026-03-01T12:00:00.000Z');

  test.each([
    [600_000, '10 minutes'],
    [599_000, '9 minutes'],
    [119_000, 'one minute'],
    [10_000, 'one minute'],
  ])('states the life that is left: %d ms is %s', (leftMs, expected) => {
    const mail = codeMailText({ code: '012345', expiresAt: new Date(now.getTime() + leftMs), now });
    expect(mail.text).toContain(`is 012345. It is good for ${expected} and`);
  });
});

describe('a refusal of the recipient', () => {
  test.each([
    ['unknown mailbox', { command: 'RCPT TO', responseCode: 550, response: '550 5.1.1 no such user' }, true],
    ['without an enhanced status', { command: 'RCPT TO', responseCode: 553, response: '553 no' }, true],
    ['for the moment', { command: 'RCPT TO', responseCode: 451, response: '451 4.2.1 later' }, false],
    ['of our right to relay', { command: 'RCPT TO', responseCode: 554, response: '554 5.7.1 relay denied' }, false],
    ['of the sender', { command: 'MAIL FROM', responseCode: 550, response: '550 5.1.8 no' }, false],
    ['of the text', { command: 'DATA', responseCode: 554, response: '554 5.6.0 no' }, false],
    ['by a broken connection', { command: 'CONN', code: 'ESOCKET' }, false],
  ])('%s', (_case, error, expected) => {
    expect(isRecipientRefused(Object.assign(new Error('smtp'), error))).toBe(expected);
  });
});
