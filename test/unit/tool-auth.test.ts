import { clock } from '../../src/api/core/clock';
import { signed } from '../../src/api/tools/auth';
import type { AwsAuth } from '../../src/api/tools/models';

// The vector `get-vanilla` of the test suite that AWS publishes for Signature Version 4.
const SECRET_KEY = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY';
const auth: AwsAuth = {
  type: 'aws_sigv4',
  region: 'us-east-1',
  service: 'service',
  access_key_id: 'AKIDEXAMPLE',
  secret_access_key: { no_echo: true },
};
const request = { url: 'https://example.amazonaws.com/', method: 'GET', headers: {} };
const credentials = { secrets: new Map(), headers: new Map(), auth: new Map([['secret_access_key', SECRET_KEY]]) };
const using = { credentials, signal: new AbortController().signal };

beforeEach(() => {
  jest.spyOn(clock, 'now').mockReturnValue(new Date('2015-08-30T12:36:00Z'));
});

afterEach(() => jest.restoreAllMocks());

test('a request is signed as the published vector says', async () => {
  expect(Object.fromEntries((await signed(auth, request, using)).headers)).toEqual({
    authorization:
      'AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ' +
      'SignedHeaders=host;x-amz-date, Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
    'x-amz-date': '20150830T123600Z',
  });
});

test('a token of temporary credentials goes along and is signed', async () => {
  const { headers } = await signed({ ...auth, session_token: 'temporary' }, request, using);
  const all = Object.fromEntries(headers);
  expect(all['x-amz-security-token']).toBe('temporary');
  expect(all.authorization).toContain('SignedHeaders=host;x-amz-date;x-amz-security-token,');
});
