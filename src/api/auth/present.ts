import type { z } from 'zod';
import { isoTime } from '../core/timestamps';
import type { AuthSession } from './schemas';
import type { IssuedSession } from './service';

/** A session in the shape of the API. */
export const presentSession = (session: IssuedSession): z.output<typeof AuthSession> => ({
  access_token: session.accessToken,
  refresh_token: session.refreshToken,
  expires_at: isoTime(session.expiresAt),
});
