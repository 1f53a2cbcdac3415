import { MailAddress } from '../../src/api/auth/addresses';
import { codeMailText } from '../../src/api/auth/code-mail';
import { clearedCookie, cookieToken, mayUseCookie, refreshCookie } from '../../src/api/auth/cookie';
import { isRecipientRefused } from '../../src/api/auth/mailer';
import { randomDigits } from '../../src/api/core/random';
import { Mailbox } from '../../src/local/mailbox';

describe('addresses', () => {
  test.each([
    ['  Ana@Acme.TEST\n', 'ana@acme.test'],
    ['a.b+c@x.test', 'a.b+c@x.test'],
    ["o'neil@x.test", "o'neil@x.test"],
    [`${'a'.repeat(247)}@x.test`, `${'a'.repeat(247)}@x.test`],
    ['İ@x.test', 'i\u0307@x.test'],
    ['J\u00FCrgen@x.test', 'j\u00FCrgen@x.test'],
    ['\u0131@x.test', '\u0131@x.test'],
    ['ana@xn--bcher-kva.test', 'ana@xn--bcher-kva.test'],
    ['ana@localhost', 'ana@localhost'],
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
    '\u212Aim@x.test',
    'kim@\u212A.test',
    'a\uFF20x.test',
    'a\uFF20b@x.test',
    '\uFF41na@x.test',
    'ana@\uFF58.test',
    'ju\u0308rgen@x.test',
    'ana@b\u00FCcher.test',
    'ana@\u0131.test',
    'ana@x\u3002test',
    'ana@x.test.',
    'ana@.test',
    'ana@x..test',
    'ana@-x.test',
    'ana\u200B@x.test',
    'ana\u202E@x.test',
    'ana\u00A0b@x.test',
    'ana\u2028@x.test',
    'ana\0@x.test',
    'ana@x.test\0',
    'ana@x.test\n\nBcc: b@x.test',
    'ana%0d%0aBcc: b@x.test',
    'ana@[127.0.0.1]',
  ])('%j is refused', (given) => {
    expect(MailAddress.safeParse(given).success).toBe(false);
  });
});

test('no letter of another alphabet becomes one of ours by lower case, so that no spelling reaches the account of another', () => {
  const letters = Array.from({ length: 0x110000 }, (_each, code) => code)
    .filter((code) => code > 0x7f && (code < 0xd800 || code > 0xdfff))
    .map((code) => String.fromCodePoint(code))
    .filter((letter) => letter.toLowerCase() !== letter);
  expect(letters.length).toBeGreaterThan(1_000);
  const reaching = letters.filter((letter) => {
    // A word character first, so that nothing is trimmed away.
    const taken = MailAddress.safeParse(`a${letter}b@x.test`);
    // eslint-disable-next-line no-control-regex -- ASCII is what is looked for
    return taken.success && /^[\x00-\x7f]*$/.test(taken.data);
  });
  expect(reaching).toEqual([]);
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

describe('a cookie header', () => {
  test.each<[string | undefined, string | undefined]>([
    [undefined, undefined],
    ['', undefined],
    ['other=1', undefined],
    ['svc_refresh=', undefined],
    ['svc_refresh', undefined],
    ['xsvc_refresh=a', undefined],
    ['svc_refresh=a', 'a'],
    ['theme=dark;svc_refresh = a=b ; x=y', 'a=b'],
    ['svc_refresh=first; svc_refresh=second', 'first'],
  ])('%j holds the token %j', (header, expected) => {
    expect(cookieToken(header)).toBe(expected);
  });

  test('is emptied with the attributes that it was set with', () => {
    expect(clearedCookie('https://api.example.test')).toBe(
      'svc_refresh=; HttpOnly; SameSite=Lax; Path=/v1/auth; Max-Age=0; Secure',
    );
  });

  test.each<[string | undefined, boolean]>([
    [undefined, true],
    ['https://api.example.test', true],
    ['https://app.example.test', true],
    ['https://api.example.test/', false],
    ['http://api.example.test', false],
    ['https://evil-api.example.test', false],
    ['null', false],
    ['', false],
  ])('of a page of %j counts: %j', (origin, expected) => {
    const given = { baseUrl: 'https://api.example.test/base', allowed: ['https://app.example.test'] };
    expect(mayUseCookie(origin, given)).toBe(expected);
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

test('a code has six digits, zeros in front included', () => {
  const codes = Array.from({ length: 500 }, () => randomDigits(6));
  expect(codes.filter((code) => !/^\d{6}$/.test(code))).toEqual([]);
  expect(new Set(codes.map((code) => code.slice(0, 1))).size).toBe(10);
});

describe('the development mailbox', () => {
  const mail = (to: string, subject: string) => ({ to, subject, text: 't', code: null });

  test('shows the mails to an address, newest first, each as it was sent', () => {
    const mailbox = new Mailbox();
    mailbox.store(mail('ana@x.test', 'invitation'));
    mailbox.store({ ...mail('Ana@x.test', 'code'), code: '012345' });
    mailbox.store(mail('ben@x.test', 'other'));
    const sent = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as unknown;
    expect(mailbox.read('ANA@x.test')).toEqual([
      { to: 'Ana@x.test', subject: 'code', text: 't', code: '012345', created_at: sent },
      { to: 'ana@x.test', subject: 'invitation', text: 't', code: null, created_at: sent },
    ]);
  });

  test('keeps the last 200', () => {
    const mailbox = new Mailbox();
    for (let number = 1; number <= 201; number += 1) mailbox.store(mail('ana@x.test', String(number)));
    const subjects = mailbox.read('ana@x.test').map(({ subject }) => subject);
    expect([subjects.length, subjects[0], subjects.at(-1)]).toEqual([200, '201', '2']);
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
