import { query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import { hmac } from '../../src/api/core/keys';
import { randomDigits, randomText } from '../../src/api/core/random';
import type { Service } from './app';

export const freshEmail = (): string => `${randomText(12).toLowerCase()}@sign-in.test`;

/** A code for an address as its mail would have left it, without the mail. */
export async function plantCode(email: string): Promise<string> {
  const id = newId('code');
  const code = randomDigits(6);
  await query(
    `insert into sign_in_codes (id, email, hash, run_seen_at, expires_at, created_at)
     values ($1, $2, $3, now(), now() + interval '10 minutes', now())
     on conflict (email) do update set id = excluded.id, hash = excluded.hash, guesses = 0, expires_at = excluded.expires_at`,
    [id, email, hmac('code-hash', `${id}${code}`)],
  );
  return code;
}

export interface SignedIn {
  email: string;
  access: string;
  refresh: string;
}

/** A session opened by a code, as a client gets it. */
export async function signIn(service: Service, email = freshEmail()): Promise<SignedIn> {
  const answer = await service.client().post('/v1/auth/code/verify', { email, code: await plantCode(email) });
  if (answer.status !== 200) throw new Error(`expected 200, got ${String(answer.status)}`);
  return { email, access: answer.body.access_token as string, refresh: answer.body.refresh_token as string };
}
