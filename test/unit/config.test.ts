import { ConfigError, parseConfig } from '../../src/api/core/config';

const good = {
  DATABASE_URL: 'postgres://u:p@127.0.0.1:5432/svc',
  TEMPORAL_ADDRESS: '127.0.0.1:7233',
  PUBLIC_BASE_URL: 'http://localhost:3000',
  JWT_SECRET: 'x'.repeat(32),
  SECRETS_ENCRYPTION_KEY: '0f'.repeat(32),
};
const live = { ...good, SMTP_URL: 'smtp://mail.test', MAIL_FROM: 'a@b.test' };

test('defaults fill what is not given', () => {
  expect(parseConfig(good, true)).toMatchObject({
    HOST: '127.0.0.1',
    PORT: 3000,
    WEBHOOK_TIMEOUT_SECONDS: 10,
    DELIVERY_FIRST_ATTEMPT: 'inline',
    CALL_HEARTBEAT_SECONDS: 30,
  });
  expect(parseConfig(live, false).HOST).toBe('0.0.0.0');
  expect(parseConfig(good, true)).toMatchObject({ METRICS_HOST: '127.0.0.1', METRICS_PORT: 9464, tracing: false });
  expect(parseConfig(live, false).METRICS_HOST).toBe('0.0.0.0');
});

test.each([
  ['DATABASE_URL', undefined],
  ['DATABASE_URL', 'mysql://x/y'],
  ['TEMPORAL_ADDRESS', undefined],
  ['PUBLIC_BASE_URL', 'nonsense'],
  ['JWT_SECRET', 'too short'],
  ['JWT_SECRET', undefined],
  ['SECRETS_ENCRYPTION_KEY', 'abc'],
  ['SECRETS_DECRYPTION_KEYS', 'abc'],
  ['PORT', '70000'],
  ['METRICS_PORT', '-1'],
  ['ENGINE_METRICS_ADDRESS', 'nonsense'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318'],
  ['WEBHOOK_ALLOW_HTTP', 'yes'],
  ['DELIVERY_FIRST_ATTEMPT', 'later'],
  ['CALL_HEARTBEAT_SECONDS', '2'],
  ['DATABASE_POOL_MAX', '0'],
  ['TOOL_EGRESS_ALLOWED_HOSTS', 'good.test,http://bad.test'],
  ['TOOL_EGRESS_ALLOWED_HOSTS', '10.0.0.0/33'],
  ['EGRESS_DENIED_CIDRS', '10.0.0.0/8,host.test'],
  ['ALLOWED_ORIGINS', '*'],
  ['ALLOWED_ORIGINS', 'null'],
  ['ALLOWED_ORIGINS', 'https://app.test,https://app.test/'],
  ['ALLOWED_ORIGINS', 'https://App.test'],
  ['GOOGLE_JWKS_URL', 'file:///keys'],
  ['REFRESH_REUSE_GRACE', '-1'],
  ['SMTP_URL', undefined],
  ['SMTP_URL', 'mail.test:587'],
  ['SMTP_URL', 'https://mail.test'],
  ['MAIL_FROM', ''],
])('%s = %s stops the process and is named', (name, value) => {
  expect(() => parseConfig({ ...live, [name]: value }, false)).toThrow(ConfigError);
  expect(() => parseConfig({ ...live, [name]: value }, false)).toThrow(new RegExp(name));
});

test.each([
  ['HOST', '0.0.0.0'],
  ['HOST', '192.168.1.5'],
  ['PUBLIC_BASE_URL', 'https://example.com'],
])('local mode refuses %s = %s', (name, value) => {
  expect(() => parseConfig({ ...good, [name]: value }, true)).toThrow(new RegExp(name));
});

test('local mode does without a mail server; one that is given needs a sender', () => {
  const { MAIL_FROM: _sender, ...senderless } = live;
  expect(parseConfig(good, true).SMTP_URL).toBeUndefined();
  expect(() => parseConfig(senderless, true)).toThrow(/MAIL_FROM: required with SMTP_URL/);
  expect(parseConfig(live, true)).toMatchObject({ SMTP_URL: 'smtp://mail.test', MAIL_FROM: 'a@b.test' });
});

test('a malformed entry of the egress lists is named, good lists are kept as given', () => {
  const settings = { ...live, TOOL_EGRESS_ALLOWED_HOSTS: 'good.test,-bad', EGRESS_DENIED_CIDRS: '::/129' };
  expect(() => parseConfig(settings, false)).toThrow(/TOOL_EGRESS_ALLOWED_HOSTS: malformed entry "-bad"/);
  expect(() => parseConfig(settings, false)).toThrow(/EGRESS_DENIED_CIDRS: malformed entry "::\/129"/);
  const good = { TOOL_EGRESS_ALLOWED_HOSTS: 'a.test:80, *.b.test', EGRESS_DENIED_CIDRS: '8.8.8.0/24' };
  expect(parseConfig({ ...live, ...good }, false)).toMatchObject(good);
  expect(parseConfig(live, false)).toMatchObject({ TOOL_EGRESS_ALLOWED_HOSTS: '', EGRESS_DENIED_CIDRS: '' });
});

test('settings in seconds accept decimals', () => {
  expect(parseConfig({ ...good, WEBHOOK_BACKOFF_BASE_SECONDS: '0.25' }, true).WEBHOOK_BACKOFF_BASE_SECONDS).toBe(0.25);
});

test.each([
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }, true],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://collector:4318/v1/traces' }, true],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318', OTEL_SDK_DISABLED: 'true' }, false],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, false],
])('traces are written where a receiver is named: %j', (given, tracing) => {
  expect(parseConfig({ ...live, ...given }, false).tracing).toBe(tracing);
});

test('the metrics of local mode are for this machine only', () => {
  expect(() => parseConfig({ ...good, METRICS_HOST: '0.0.0.0' }, true)).toThrow(/METRICS_HOST/);
});
