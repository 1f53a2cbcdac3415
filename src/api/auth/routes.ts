import { noCredential } from '../core/access';
import { config } from '../core/config';
import { route } from '../core/route';
import type { Answer, Route } from '../core/route';
import { clearedCookie, refreshCookie } from './cookie';
import { presentSession } from './present';
import {
  AuthSession,
  CodeRequest,
  CodeRequested,
  CodeVerification,
  GoogleSignIn,
  LogoutRequest,
  RefreshRequest,
  addressOf,
} from './schemas';
import { logOut, refreshSession, requestCode, signInWithGoogle, verifyCode } from './service';
import type { IssuedSession } from './service';
import { sessionSeconds } from './sessions';
import { shownForLogout, shownForRefresh } from './shown';

const SIGN_IN_BODY_BYTES_MAX = 65_536;

/** A session in the body, and its refresh token as a cookie too. */
function sessionAnswer(session: IssuedSession): Answer {
  const cookie = refreshCookie(session.refreshToken, {
    maxAgeSeconds: sessionSeconds(),
    baseUrl: config().PUBLIC_BASE_URL,
  });
  return { status: 200, body: presentSession(session), headers: { 'Set-Cookie': cookie } };
}

export const authRoutes: Route[] = [
  route({
    method: 'post',
    path: '/v1/auth/code',
    id: 'requestCode',
    signIn: true,
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
    signIn: true,
    summary: 'Sign in with a mailed code',
    needs: noCredential,
    action: 'auth:VerifyCode',
    inputCode: 'bad_request',
    body: CodeVerification,
    bodyBytesMax: SIGN_IN_BODY_BYTES_MAX,
    answers: { 200: AuthSession },
    fails: ['invalid_code', 'too_many_attempts'],
    handle: async ({ body }) => sessionAnswer(await verifyCode({ email: addressOf(body), code: body.code })),
  }),
  route({
    method: 'post',
    path: '/v1/auth/google',
    id: 'signInWithGoogle',
    summary: 'Sign in with an id token of Google',
    needs: noCredential,
    action: 'auth:SignInWithGoogle',
    inputCode: 'bad_request',
    body: GoogleSignIn,
    bodyBytesMax: SIGN_IN_BODY_BYTES_MAX,
    answers: { 200: AuthSession },
    fails: ['unauthorized', 'email_not_verified', 'google_sign_in_not_configured'],
    handle: async ({ body }) => sessionAnswer(await signInWithGoogle(body.id_token)),
  }),
  route({
    method: 'post',
    path: '/v1/auth/refresh',
    id: 'refreshSession',
    summary: 'Get the next session token by a refresh token, of the body or of the cookie',
    needs: noCredential,
    action: 'auth:RefreshSession',
    inputCode: 'bad_request',
    body: RefreshRequest,
    bodyBytesMax: SIGN_IN_BODY_BYTES_MAX,
    answers: { 200: AuthSession },
    fails: ['unauthorized', 'access_denied'],
    handle: async ({ body, header }) => sessionAnswer(await refreshSession(shownForRefresh(body, header))),
  }),
  route({
    method: 'post',
    path: '/v1/auth/logout',
    id: 'logOut',
    summary: 'End the session of the bearer, of the refresh token or of the cookie, or all of its person',
    needs: noCredential,
    bearerOptional: true,
    action: 'auth:LogOut',
    inputCode: 'bad_request',
    body: LogoutRequest,
    bodyBytesMax: SIGN_IN_BODY_BYTES_MAX,
    answers: { 204: null },
    fails: ['unauthorized', 'access_denied'],
    handle: async ({ body, header }) => {
      await logOut(shownForLogout(body, header));
      return { status: 204, headers: { 'Set-Cookie': clearedCookie(config().PUBLIC_BASE_URL) } };
    },
  }),
];
