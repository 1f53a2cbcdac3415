import { z } from 'zod';
import { randomText } from './random';

/** Every identifier of the API is a prefix of this table and 16 characters of `[0-9A-Za-z]`. */
const prefixes = {
  price: 'price_',
  agent: 'agent_',
  agentCredentials: 'agcr_',
  agentVersion: 'agver_',
  aiProvider: 'aip_',
  apiKey: 'key_',
  code: 'code_',
  delivery: 'whd_',
  event: 'evt_',
  generation: 'gen_',
  member: 'pmem_',
  planLine: 'pln_',
  project: 'proj_',
  secret: 'sec_',
  sessionFamily: 'ses_',
  tool: 'tool_',
  trace: 'trace_',
  user: 'user_',
  webhook: 'whk_',
} as const;

export type IdKind = keyof typeof prefixes;

const RANDOM_CHARACTERS = 16;

/** A fresh identifier of that kind, e.g. `agent_V1StGXR8Z5jdHi6B`. */
export const newId = (kind: IdKind): string => prefixes[kind] + randomText(RANDOM_CHARACTERS);

const patterns = Object.fromEntries(
  Object.entries(prefixes).map(([kind, prefix]) => [
    kind,
    new RegExp(`^${prefix}[0-9A-Za-z]{${String(RANDOM_CHARACTERS)}}$`),
  ]),
) as Record<IdKind, RegExp>;

/** The schema of an identifier in a path; one that does not match names nothing and is answered as not found. */
export const idOf = (kind: IdKind): z.ZodString =>
  z
    .string()
    .regex(patterns[kind])
    .meta({
      description: `Identifier with the prefix \`${prefixes[kind]}\``,
      example: `${prefixes[kind]}V1StGXR8Z5jdHi6B`,
    });

/** Whether a text is an identifier of that kind. */
export const isId = (kind: IdKind, text: string): boolean => patterns[kind].test(text);
