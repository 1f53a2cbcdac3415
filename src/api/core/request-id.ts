import { randomText } from './random';

/** The caller's own request id when it has the allowed form, else a new one. */
export function newRequestId(given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[A-Za-z0-9._-]{1,128}$/.test(given) ? given : `req-${randomText(20)}`;
}
