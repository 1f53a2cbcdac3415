/** Name of the cookie that holds the refresh token. */
const NAME = 'svc_refresh';

/** What the cookie's attributes depend on: the service's own address. */
const attributes = (maxAgeSeconds: number, baseUrl: string): string => {
  const secure = new URL(baseUrl).protocol === 'https:' ? '; Secure' : '';
  return `HttpOnly; SameSite=Lax; Path=/v1/auth; Max-Age=${String(maxAgeSeconds)}${secure}`;
};

/**
 * The `Set-Cookie` value that gives a browser its refresh token: out of reach of scripts, sent to the sign-in routes
 * only. Spec: Sign-in, rule 3.
 */
export const refreshCookie = (
  token: string,
  { maxAgeSeconds, baseUrl }: { maxAgeSeconds: number; baseUrl: string },
): string => `${NAME}=${token}; ${attributes(maxAgeSeconds, baseUrl)}`;

/** The `Set-Cookie` value that takes the refresh token from a browser. */
export const clearedCookie = (baseUrl: string): string => `${NAME}=; ${attributes(0, baseUrl)}`;

/**
 * The refresh token in a `Cookie` header, or undefined. Of several cookies of the name the first counts: browsers put
 * the one of the longest path first. An empty one is none.
 */
export function cookieToken(header: string | undefined): string | undefined {
  for (const pair of (header ?? '').split(';')) {
    const at = pair.indexOf('=');
    if (at < 0 || pair.slice(0, at).trim() !== NAME) continue;
    const value = pair.slice(at + 1).trim();
    return value === '' ? undefined : value;
  }
  return undefined;
}

/**
 * Whether the page behind a request may use the cookie. Browsers name the page's origin on every request that can change
 * something; a caller that sends none is no browser. `null`, the origin of sandboxed pages and of some redirects, is not
 * ours. Spec: Refresh and revoke.
 * @param origin the `Origin` header
 */
export const mayUseCookie = (
  origin: string | undefined,
  { baseUrl, allowed }: { baseUrl: string; allowed: readonly string[] },
): boolean => origin === undefined || origin === new URL(baseUrl).origin || allowed.includes(origin);
