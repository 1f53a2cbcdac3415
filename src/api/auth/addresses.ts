import { z } from 'zod';

const ADDRESS_CHARACTERS_MAX = 254;

/**
 * One `@` with something on each side, and nothing that a mail header reads as more than one plain address: no white
 * space, control character, quote, bracket or separator.
 */
const PLAIN_ADDRESS = /^[^\s@\p{Cc}"(),:;<>[\\\]]+@[^\s@\p{Cc}"(),:;<>[\\\]]+$/u;

/**
 * A mail address, normalised by being parsed: trimmed and in lower case, at most 254 characters. Dots and plus tags
 * stay. Spec: Sign-in.
 */
export const MailAddress = z
  .string()
  .trim()
  .toLowerCase()
  .max(ADDRESS_CHARACTERS_MAX)
  .regex(PLAIN_ADDRESS, 'must be a mail address');
