import { config } from '../core/config';
import { ApiError } from '../core/errors';
import { cookieToken, mayUseCookie } from './cookie';
import type { LogoutInput } from './service';

type Header = (name: string) => string | undefined;

const BEARER = /^Bearer ([^\s]+)$/i;

/** The cookie's refresh token. @throws access_denied for a page of another origin: its browser adds the cookie unasked */
function ownCookie(header: Header): string | undefined {
  const token = cookieToken(header('Cookie'));
  if (token !== undefined && !isOwnPage(header)) {
    throw new ApiError('access_denied', 'Pages of this origin may not use the cookie.');
  }
  return token;
}

const isOwnPage = (header: Header): boolean =>
  mayUseCookie(header('Origin'), { baseUrl: config().PUBLIC_BASE_URL, allowed: config().ALLOWED_ORIGINS });

/** The refresh token of a refresh: that of the body, else the cookie's. @throws access_denied */
export const shownForRefresh = (body: { refresh_token?: string | undefined }, header: Header): string | undefined =>
  body.refresh_token ?? ownCookie(header);

/**
 * What a logout ends: everything that came with it. Beside a bearer or a token of the body the cookie of a page of
 * another origin is left out; alone it is refused. @throws access_denied
 */
export function shownForLogout(
  body: { all?: boolean | undefined; refresh_token?: string | undefined },
  header: Header,
): LogoutInput {
  const bearer = BEARER.exec(header('Authorization') ?? '')?.[1];
  const given = body.refresh_token;
  const alone = bearer === undefined && given === undefined;
  const cookie = alone || isOwnPage(header) ? ownCookie(header) : undefined;
  const refreshTokens = [given, cookie].filter((token) => token !== undefined);
  return { bearer, refreshTokens, all: body.all ?? false };
}
