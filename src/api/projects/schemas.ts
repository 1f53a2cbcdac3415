import { z } from 'zod';
import { roles } from '../core/access';
import { CursorQuery, booleanText } from '../core/pages';

/** What a column of type `integer` holds. */
const INTEGER_MAX = 2_147_483_647;
/** The deployment's own bound of nested orchestration runs; a project can only be stricter. */
const RUN_DEPTH_MAX = 10;

const positive = z.int().min(1).max(INTEGER_MAX).nullable();

export const IdempotencyKey = z.string().min(1).max(255);

const name = z.string().min(1).max(255).meta({ description: 'Name; need not be unique', example: 'getting started' });

/** What both a new project and a change of one may set. */
const settings = {
  max_concurrent_runs: positive.optional().meta({ description: 'Orchestration runs at once; null = no limit' }),
  max_chain_generations: positive.optional().meta({ description: 'Generations in one chain; null = no own limit' }),
  max_orchestration_run_depth: z
    .int()
    .min(1)
    .max(RUN_DEPTH_MAX)
    .nullable()
    .optional()
    .meta({ description: 'Nesting of orchestration runs; null = the limit of the deployment, 10' }),
  audit_reads_enabled: z.boolean().optional().meta({ description: 'Whether reads enter the audit log' }),
  managed_conversion: z.boolean().optional().meta({ description: 'Whether the managed ingestion rules exist' }),
  require_priced_model: z.boolean().optional().meta({ description: 'Refuse to run models without a price' }),
  trace_content_mode: z
    .enum(['full', 'none'])
    .optional()
    .meta({ description: '`none`: the content of generations and traces is never kept' }),
  trace_content_retention_days: positive.optional().meta({ description: 'Days that content is kept; null = no end' }),
};

export const ProjectCreate = z
  .strictObject({
    name,
    idempotency_key: IdempotencyKey.optional().meta({
      description: 'Within 24 hours the same key and body give the first project again; wins over `Idempotency-Key`',
    }),
    ...settings,
  })
  .meta({ id: 'ProjectCreate' });

export const ProjectUpdate = z
  .strictObject({
    name: name.optional(),
    status: z
      .enum(['active', 'archived'])
      .optional()
      .meta({ description: 'Set by the owner only; an archived project can be read, made active again, and deleted' }),
    guardrail_ids: z
      .array(z.string())
      .optional()
      .meta({ description: 'Baseline for every tool call in the project; replaces the former list' }),
    default_model_route_id: z
      .string()
      .nullable()
      .optional()
      .meta({ description: 'Used by what names no provider and no route; null = none' }),
    ...settings,
  })
  .meta({ id: 'ProjectUpdate' });

/** What a reason of a pause may hold. */
const PAUSE_REASON_MAX = 256;

export const ProjectPause = z
  .strictObject({
    reason: z
      .string()
      .max(PAUSE_REASON_MAX)
      .nullable()
      .default(null)
      .meta({ description: 'Why; told by every refusal while the pause lasts', example: 'budget spent' }),
  })
  .meta({ id: 'ProjectPause' });

export const ProjectDeleteQuery = z.strictObject({
  force: booleanText(false).meta({ description: 'Delete with everything in it: its runs are cancelled first' }),
});

export const ProjectOut = z
  .strictObject({
    id: z.string().meta({ description: 'Identifier with the prefix `proj_`', example: 'proj_V1StGXR8Z5jdHi6B' }),
    name: z.string().meta({ description: 'Name' }),
    role: z.enum(roles).meta({ description: "The caller's role" }),
    owner_user_id: z.string().meta({ description: 'Creator and billing owner' }),
    status: z.enum(['active', 'archived']).meta({ description: 'A pause is told by `paused_at`' }),
    paused_at: z.iso.datetime().nullable().meta({ description: 'Since when the project is paused' }),
    pause_reason: z.string().nullable().meta({ description: 'Why it is paused' }),
    guardrail_ids: z.array(z.string()).meta({ description: 'Baseline for every tool call in the project' }),
    default_model_route_id: z.string().nullable().meta({ description: 'Used by what names no provider and no route' }),
    max_concurrent_runs: z.int().nullable().meta({ description: 'Orchestration runs at once; null = no limit' }),
    max_chain_generations: z.int().nullable().meta({ description: 'Generations in one chain; null = no own limit' }),
    max_orchestration_run_depth: z.int().nullable().meta({ description: 'Nesting of orchestration runs' }),
    audit_reads_enabled: z.boolean().meta({ description: 'Whether reads enter the audit log' }),
    managed_conversion: z.boolean().meta({ description: 'Whether the managed ingestion rules exist' }),
    require_priced_model: z.boolean().meta({ description: 'Whether unpriced models are refused' }),
    trace_content_mode: z.enum(['full', 'none']).meta({ description: 'What is kept of the content of generations' }),
    trace_content_retention_days: z.int().nullable().meta({ description: 'Days that content is kept; null = no end' }),
    created_at: z.iso.datetime().meta({ description: 'When the project was made' }),
    updated_at: z.iso.datetime().meta({ description: 'When it was last changed' }),
  })
  .meta({ id: 'Project' });

export const ProjectListQuery = CursorQuery.extend({
  status: z.enum(['active', 'archived']).optional().meta({ description: 'Only projects of that status' }),
});
