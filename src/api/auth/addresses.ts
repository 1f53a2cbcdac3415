import { z } from 'zod';

const ADDRESS_CHARACTERS_MAX = 254;

/**
 * One `@`. Before it nothing that a mail header reads as more than one plain address (white space, quote, bracket,
 * separator) and nothing that cannot be seen; after it a domain as DNS has it. A domain in Unicode or with a dot at its
 * end is another spelling of one that DNS has, so that one mailbox would be several accounts: its ASCII form is taken.
 */
const PLAIN_ADDRESS =
  /^[^\s@\p{C}\p{Z}"(),:;<>[\\\]]+@[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/u;

/**
 * Whether a text is the plain spelling of itself. Others (the Kelvin sign for a K, letters of full width, a letter and
 * its accent apart) turn into it on the way through other software, and would be taken for its owner.
 */
const isPlainlySpelt = (text: string): boolean => text === text.normalize('NFKC');

/**
 * A mail address, normalised by being parsed: trimmed and in lower case, at most 254 characters. Dots and plus tags
 * stay. Spec: Sign-in.
 */
export const MailAddress = z
  .string()
  .trim()
  .refine(isPlainlySpelt, { message: 'must be a mail address in its plain spelling', abort: true })
  .toLowerCase()
  .max(ADDRESS_CHARACTERS_MAX)
  .regex(PLAIN_ADDRESS, 'must be a mail address');
