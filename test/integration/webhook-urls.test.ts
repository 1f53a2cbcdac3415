import { config } from '../../src/api/core/config';
import { useService } from '../support/app';
import type { ApiClient } from '../support/client';

const service = useService();
let client: ApiClient;
let webhooks: string;

beforeAll(async () => {
  // As in production: nothing is exempt. The policy is built at its first use, which comes after this.
  Object.assign(config(), { TOOL_EGRESS_ALLOWED_HOSTS: '', WEBHOOK_ALLOW_HTTP: false });
  const owner = await service.signedIn();
  client = service.client(owner.token);
  webhooks = `/v1/projects/${(await service.project(owner)).id}/webhooks`;
});

const create = (url: unknown) => client.post(webhooks, { url, events: ['*'] });

test.each([
  'http://example.com/hook',
  'https://127.0.0.1/x',
  'https://2130706433/x',
  'https://0x7f.1/x',
  'https://[::1]/x',
  'https://[::ffff:10.0.0.1]/',
  'https://10.0.0.5/',
  'https://172.16.0.1/',
  'https://192.168.1.1/',
  'https://169.254.169.254/latest/meta-data',
  'https://100.64.0.1/',
  'https://[fd00::1]/',
  'https://[64:ff9b::a00:1]/',
  'https://u:p@h.test/',
  'https://h.test/#fragment',
  'https://localhost/',
  'https://a.localhost/',
  'https://printer.local/',
  'https://db.internal/',
  'ftp://h.test/',
  'h.test/hook',
  'https://',
  '',
  7,
  null,
])('[webhooks 3] %p is no URL for a webhook', async (url) => {
  const answer = await create(url);
  expect(answer.status).toBe(400);
  expect(answer.body.error).toMatchObject({ code: 'bad_request', details: [{ path: 'url' }] });
});

test('2,048 characters are the most', async () => {
  const longest = `https://h.test/${'a'.repeat(2_033)}`;
  expect((await create(longest)).status).toBe(201);
  const answer = await create(`${longest}a`);
  expect(answer.status).toBe(400);
  expect(answer.body.error).toMatchObject({ code: 'bad_request', details: [{ path: 'url' }] });
});

test('a change of the URL is held to the same rules', async () => {
  const { body } = await create('https://example.com/hook');
  const refused = await client.patch(`${webhooks}/${String(body.id)}`, { url: 'https://10.0.0.5/' });
  expect(refused.status).toBe(400);
  expect(refused.body.error).toMatchObject({ code: 'bad_request', details: [{ path: 'url' }] });
  const read = await client.get(`${webhooks}/${String(body.id)}`);
  expect(read.body.url).toBe('https://example.com/hook');
});

test.each(['https://example.com', 'https://93.184.216.34/hook?a=b', 'https://h.test:8443/'])(
  '%s is one',
  async (url) => {
    const answer = await create(url);
    expect(answer.status).toBe(201);
    expect(answer.body.url).toBe(url);
  },
);
