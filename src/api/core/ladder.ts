import { z } from 'zod';

/** The rungs of the ladder, lowest first. */
export const rungs = ['free', 'pro', 'business', 'enterprise'] as const;
export type RungName = (typeof rungs)[number];

/** What a rung allows; null = no limit. */
export interface Rung {
  /** Owned ones; archived ones count, deleted ones do not. */
  projects: number | null;
  /** Active ones. */
  channels: number | null;
  /** Inactive ones count. */
  triggers: number | null;
  /** Shortest interval of a schedule, seconds. */
  trigger_interval_seconds: number | null;
  /** Generations, accepted submissions of tool outputs and direct tool calls in a calendar month. */
  runs: number | null;
  /** Bytes of indexed content. */
  storage_bytes: number | null;
  /** Ceiling of a project's content retention, days. On the highest rung the contract of the account says it. */
  retention_days: number | null;
  guardrails: boolean;
  approvals: boolean;
  exceptions: boolean;
  audit_log: boolean;
  /** Credit of a calendar month, US dollars. */
  included_usd: number;
}

export type Ladder = Readonly<Record<RungName, Rung>>;

const MEBIBYTE = 1_048_576;

const DEFAULTS: Ladder = {
  free: {
    projects: 3,
    channels: 1,
    triggers: 3,
    trigger_interval_seconds: 3_600,
    runs: 1_000,
    storage_bytes: 100 * MEBIBYTE,
    retention_days: 7,
    guardrails: false,
    approvals: false,
    exceptions: false,
    audit_log: false,
    included_usd: 0,
  },
  pro: {
    projects: 20,
    channels: 10,
    triggers: 30,
    trigger_interval_seconds: 300,
    runs: 25_000,
    storage_bytes: 5_120 * MEBIBYTE,
    retention_days: 30,
    guardrails: true,
    approvals: true,
    exceptions: true,
    audit_log: false,
    included_usd: 10,
  },
  business: {
    projects: 200,
    channels: 100,
    triggers: 500,
    trigger_interval_seconds: 60,
    runs: 250_000,
    storage_bytes: 51_200 * MEBIBYTE,
    retention_days: 365,
    guardrails: true,
    approvals: true,
    exceptions: true,
    audit_log: true,
    included_usd: 100,
  },
  enterprise: {
    projects: null,
    channels: null,
    triggers: 500,
    trigger_interval_seconds: 60,
    runs: null,
    storage_bytes: null,
    retention_days: null,
    guardrails: true,
    approvals: true,
    exceptions: true,
    audit_log: true,
    included_usd: 0,
  },
};

const cap = z.int().min(0).nullable().optional();
const least = z.int().min(1).nullable().optional();
const feature = z.boolean().optional();
const Changes = z.partialRecord(
  z.enum(rungs),
  z.strictObject({
    projects: cap,
    channels: cap,
    triggers: cap,
    trigger_interval_seconds: least,
    runs: cap,
    storage_bytes: cap,
    retention_days: least,
    guardrails: feature,
    approvals: feature,
    exceptions: feature,
    audit_log: feature,
    included_usd: z.number().min(0).optional(),
  }),
);

/** A ladder that cannot be read; the message says where. */
export class LadderError extends Error {}

/**
 * The ladder, with what the setting `PLANS` replaces in it: JSON of rungs and of their fields, empty for none.
 * Spec: Plans, the ladder.
 * @throws LadderError
 */
export function parseLadder(text: string): Ladder {
  if (text === '') return DEFAULTS;
  const parsed = Changes.safeParse(jsonOf(text));
  if (!parsed.success) {
    const [first] = parsed.error.issues;
    throw new LadderError(`${first?.path.join('.') ?? ''}: ${first?.message ?? 'is no ladder'}`);
  }
  const changed = (rung: RungName): Rung => ({ ...DEFAULTS[rung], ...parsed.data[rung] });
  return {
    free: changed('free'),
    pro: changed('pro'),
    business: changed('business'),
    enterprise: changed('enterprise'),
  };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new LadderError('is not JSON');
  }
}

/** Whether a rung stands above (1), below (-1) or level with (0) another. */
export const compareRungs = (a: RungName, b: RungName): number => Math.sign(rungs.indexOf(a) - rungs.indexOf(b));
