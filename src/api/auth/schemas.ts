import { z } from 'zod';
import { MailAddress } from './addresses';

const email = MailAddress.optional().meta({
  description: 'The address; normalised to lower case without white space around it',
  example: 'ana@acme.test',
});
const address = MailAddress.optional().meta({ description: 'Another name of `email`; give one of the two' });

/** The address under either of its names. */
const oneAddress = (given: { email?: string | undefined; address?: string | undefined }): boolean =>
  (given.email === undefined) !== (given.address === undefined);
const ONE_ADDRESS = { path: ['email'], message: 'must be given, or `address` in its place' };

/** The normalised address of a body that passed `oneAddress`. */
export const addressOf = (body: { email?: string | undefined; address?: string | undefined }): string =>
  body.email ?? body.address ?? '';

export const CodeRequest = z
  .strictObject({ email, address })
  .refine(oneAddress, ONE_ADDRESS)
  .meta({ id: 'CodeRequest' });

export const CodeRequested = z
  .strictObject({ expires_in: z.number().meta({ description: 'Seconds the code is good for', example: 600 }) })
  .meta({ id: 'CodeRequested' });

export const CodeVerification = z
  .strictObject({
    email,
    address,
    code: z
      .string()
      .regex(/^\d{6}$/, 'must be six digits')
      .meta({ description: 'The six digits of the mail', example: '012345' }),
  })
  .refine(oneAddress, ONE_ADDRESS)
  .meta({ id: 'CodeVerification' });

export const GoogleSignIn = z
  .strictObject({ id_token: z.string().min(1).meta({ description: 'Id token that Google gave for our client id' }) })
  .meta({ id: 'GoogleSignIn' });

const refreshToken = z.string().optional();

export const RefreshRequest = z
  .strictObject({
    refresh_token: refreshToken.meta({ description: 'The refresh token; without it that of the cookie counts' }),
  })
  .meta({ id: 'RefreshRequest' });

export const LogoutRequest = z
  .strictObject({
    all: z.boolean().optional().meta({ description: 'End every session of the person; API keys stay' }),
    refresh_token: refreshToken.meta({ description: 'Ends its session; beside it that of the bearer ends' }),
  })
  .meta({ id: 'LogoutRequest' });

export const AuthSession = z
  .strictObject({
    access_token: z.string().meta({ description: 'Session token, the bearer credential of requests' }),
    refresh_token: z
      .string()
      .meta({ description: 'Single-use token for the next session token; also set as a cookie' }),
    expires_at: z.iso.datetime().meta({ description: 'When `access_token` ends' }),
  })
  .meta({ id: 'AuthSession' });
