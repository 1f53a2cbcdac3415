import { noCredential } from '../core/access';
import { config } from '../core/config';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { refreshCookie } from './cookie';
import { presentSession } from './present';
import { AuthSession, CodeRequest, CodeRequested, CodeVerification, addressOf } from './schemas';
import { requestCode, verifyCode } from './service';
import { sessionSeconds } from './sessions';

const SIGN_IN_BODY_BYTES_MAX = 65_536;

export const authRoutes: Route[] = [
  route({
    method: 'post',
    path: '/v1/auth/code',
    id: 'requestCode',
    summary: 'Mail a six-digit sign-in code to an address',
    needs: noCredential,
    action: 'auth:RequestCode',
    inputCode: 'bad_request',
    body: CodeRequest,
    bodyBytesMax: SIGN_IN_BODY_BYTES_MAX,
    answers: { 202: CodeRequested },
    fails: ['too_many_requests'],
    handle: async ({ body, requestId }) => {
      await requestCode({ email: addressOf(body), requestId });
      return { status: 202, body: { expires_in: config().AUTH_CODE_TTL_SECONDS } };
    },
  }),
  route({
    method: 'post',
    path: '/v1/auth/code/verify',
    id: 'verifyCode',
    summary: 'Sign in with a mailed code',
    needs: noCredential,
    action: 'auth:VerifyCode',
    inputCode: 'bad_request',
    body: CodeVerification,
    bodyBytesMax: SIGN_IN_BODY_BYTES_MAX,
    answers: { 200: AuthSession },
    fails: ['invalid_code', 'too_many_attempts'],
    handle: async ({ body }) => {
      const session = await verifyCode({ email: addressOf(body), code: body.code });
      const cookie = refreshCookie(session.refreshToken, {
        maxAgeSeconds: sessionSeconds(),
        baseUrl: config().PUBLIC_BASE_URL,
      });
      return { status: 200, body: presentSession(session), headers: { 'Set-Cookie': cookie } };
    },
  }),
];
