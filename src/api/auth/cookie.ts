/** Name of the cookie that holds the refresh token. */
const NAME = 'svc_refresh';

/**
 * The `Set-Cookie` value that gives a browser its refresh token: out of reach of scripts, sent to the sign-in routes
 * only. Spec: Sign-in, rule 3.
 */
export function refreshCookie(
  token: string,
  { maxAgeSeconds, baseUrl }: { maxAgeSeconds: number; baseUrl: string },
): string {
  const secure = new URL(baseUrl).protocol === 'https:' ? '; Secure' : '';
  return `${NAME}=${token}; HttpOnly; SameSite=Lax; Path=/v1/auth; Max-Age=${String(maxAgeSeconds)}${secure}`;
}
