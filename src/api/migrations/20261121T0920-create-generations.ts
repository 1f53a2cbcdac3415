import { runSql } from './step';
import type { Step } from './step';

export const up = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  create table traces (
    id text primary key, project_id text not null references projects (id) on delete cascade, agent_id text not null,
    step_count integer not null default 0, parent_trace_id text, root_trace_id text, error json,
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null, unique (project_id, id));
  create index traces_project_idx on traces (project_id, created_at desc, id desc);
  create index traces_agent_idx on traces (agent_id, created_at desc, id desc);

  create table generations (
    id text primary key, project_id text not null references projects (id) on delete cascade,
    agent_id text not null, agent_version integer not null, trace_id text not null,
    status text not null check (status in ('in_progress', 'requires_action', 'completed', 'failed')),
    stop_reason text, error json,
    pause integer not null default 0, step_count integer not null default 0, content_bytes bigint not null default 0,
    ai_provider_id text, model text,
    input_tokens bigint not null default 0, output_tokens bigint not null default 0, cached_tokens bigint not null default 0,
    cost_usd numeric(20, 12),
    action_id text, metadata json, streamed boolean not null default false,
    idempotency_key text, request_hash bytea,
    started_by_principal_type text, started_by_principal_id text, request_id text,
    run_seen_at timestamptz(3), started_at timestamptz(3), completed_at timestamptz(3), last_activity_at timestamptz(3),
    content_redacted_at timestamptz(3), content_redacted_by_principal_type text, content_redacted_by_principal_id text,
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null, unique (project_id, id),
    foreign key (project_id, agent_id) references agents (project_id, id),
    foreign key (project_id, trace_id) references traces (project_id, id));
  create index generations_project_idx on generations (project_id, created_at desc, id desc);
  create index generations_agent_idx on generations (agent_id, created_at desc, id desc);
  create index generations_trace_idx on generations (trace_id, created_at desc, id desc);
  create unique index generations_idempotency_idx on generations (project_id, idempotency_key) where idempotency_key is not null;
  create index generations_open_idx on generations (id) where status in ('in_progress', 'requires_action');
  create index generations_unseen_idx on generations (created_at) where run_seen_at is null and status in ('in_progress', 'requires_action');
  create index generations_paused_idx on generations (project_id, created_at desc, id desc) where status = 'requires_action';

  -- Content stands apart from what lists read: the messages as given, and the turn as it was resolved.
  create table generation_contents (
    generation_id text primary key, project_id text not null, input json, turn json,
    foreign key (project_id, generation_id) references generations (project_id, id) on delete cascade);

  -- A step is stored when stored_at is set; before that the row only counts what was tried.
  create table generation_steps (
    generation_id text not null, step integer not null, project_id text not null,
    retries integer not null default 0, provider_failures integer not null default 0,
    stored_at timestamptz(3), content json, finish_reason text, ai_provider_id text, model text,
    input_tokens bigint, output_tokens bigint, cached_tokens bigint, started_at timestamptz(3),
    primary key (generation_id, step),
    foreign key (project_id, generation_id) references generations (project_id, id) on delete cascade);

  create table generation_calls (
    generation_id text not null, step integer not null, call integer not null, project_id text not null,
    call_id text not null, tool_name text not null, tool_id text, kind text not null check (kind in ('client', 'http', 'none')),
    pause integer, args json, result json, error json, answered_at timestamptz(3),
    primary key (generation_id, step, call),
    foreign key (project_id, generation_id) references generations (project_id, id) on delete cascade);

  create table generation_submissions (
    id text primary key, project_id text not null, generation_id text not null, pause integer not null, body json not null,
    idempotency_key text, request_hash bytea, accepted_at timestamptz(3), created_at timestamptz(3) not null,
    foreign key (project_id, generation_id) references generations (project_id, id) on delete cascade);
  create unique index generation_submissions_accepted_idx on generation_submissions (generation_id, pause) where accepted_at is not null;
  create unique index generation_submissions_key_idx on generation_submissions (generation_id, idempotency_key) where idempotency_key is not null;`,
  );

export const down = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    'drop table generation_submissions, generation_calls, generation_steps, generation_contents, generations, traces;',
  );
