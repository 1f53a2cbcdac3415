import { ApiError } from '../core/errors';
import type { ErrorCode } from '../core/errors';

const statuses = { email_not_verified: 403, google_sign_in_not_configured: 503 } as const;

/** A refusal of Google sign-in, with its own status beside the codes that other areas share. */
class GoogleRefusal extends ApiError {
  constructor(
    private readonly own: keyof typeof statuses,
    message: string,
  ) {
    super(own as string as ErrorCode, message);
  }

  override get status(): 403 | 503 {
    return statuses[this.own];
  }
}

/** No client id is set. */
export const googleNotConfigured = (): ApiError =>
  new GoogleRefusal('google_sign_in_not_configured', 'Google sign-in is not set up here.');

/** The token proves a person, and no address of the person's. */
export const addressNotVerified = (): ApiError =>
  new GoogleRefusal('email_not_verified', 'Google has not verified the address of this account.');
