import { runSql } from './step';
import type { Step } from './step';

export const up = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  -- Credentials written out in a provider's config stand encrypted beside it, like those of a tool's headers.
  alter table ai_providers add column literals_key_id text, add column literals_data bytea;

  -- Passed rows are never changed: a new price is a new row with a later effective_from.
  create table prices (
    id text primary key, project_id text references projects (id) on delete cascade, ai_provider_id text,
    meter_type text not null, provider text not null, model text not null, component text not null, unit text not null,
    unit_price numeric(20, 12) not null check (unit_price >= 0), effective_from timestamptz(3) not null,
    created_at timestamptz(3) not null,
    foreign key (project_id, ai_provider_id) references ai_providers (project_id, id) on delete cascade,
    unique nulls not distinct (project_id, ai_provider_id, meter_type, provider, model, component, unit, effective_from));

  alter table tools drop constraint tools_type_check,
    add constraint tools_type_check check (type in ('http', 'client', 'mcp', 'builtin', 'pipeline')),
    add column mcp json, add column actions text[], add column denied_actions text[], add column preset_parameters json,
    add column context_keys text[], add column pipeline json, add column output_mapping json;

  -- Runs outlive the row of their agent while it is deleted by force; whoever accepts a run locks the agent instead.
  alter table generations drop constraint generations_project_id_agent_id_fkey,
    add column initiator_generation_id text, add column max_call_depth integer not null default 10,
    add column content_mode text not null default 'full' check (content_mode in ('full', 'none')),
    add column awaited boolean not null default false;
  create index generations_initiator_idx on generations (initiator_generation_id) where initiator_generation_id is not null;

  alter table projects add column trace_content_mode text not null default 'full' check (trace_content_mode in ('full', 'none'));

  -- The key that wraps what a run under zero retention works with; it goes with the content.
  alter table generation_contents add column tool_context json, add column key_id text, add column key_data bytea,
    add column resolved_at timestamptz(3);
  create index generation_contents_sealed_idx on generation_contents (generation_id) where key_id is not null;

  alter table generation_steps add column cache_write_tokens bigint, add column reasoning_tokens bigint,
    add column cost_usd numeric(20, 12);

  -- pinned: the arguments as they are sent, where a tool has presets; args stay what the model gave.
  alter table generation_calls drop constraint generation_calls_kind_check,
    add constraint generation_calls_kind_check check (kind in ('client', 'http', 'mcp', 'builtin', 'pipeline', 'none')),
    add column pinned json;

  alter table traces add column orchestration_run_id text,
    add column content_redacted_at timestamptz(3), add column content_redacted_by_principal_type text,
    add column content_redacted_by_principal_id text;
  create index traces_root_idx on traces (root_trace_id, created_at, id) where root_trace_id is not null;
  create index traces_parent_idx on traces (parent_trace_id) where parent_trace_id is not null;

  -- What is being deleted: the resource's row is gone already, a workflow removes what hung from it.
  create table deletions (
    id text primary key, project_id text not null references projects (id) on delete cascade, kind text not null,
    run_seen_at timestamptz(3), created_at timestamptz(3) not null);`,
  );

export const down = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  drop table deletions, prices;
  alter table traces drop column orchestration_run_id, drop column content_redacted_at,
    drop column content_redacted_by_principal_type, drop column content_redacted_by_principal_id;
  drop index traces_parent_idx;
  delete from generation_calls where kind in ('mcp', 'builtin', 'pipeline');
  alter table generation_calls drop column pinned, drop constraint generation_calls_kind_check,
    add constraint generation_calls_kind_check check (kind in ('client', 'http', 'none'));
  alter table generation_steps drop column cache_write_tokens, drop column reasoning_tokens, drop column cost_usd;
  alter table projects drop column trace_content_mode;
  alter table generation_contents drop column tool_context, drop column key_id, drop column key_data, drop column resolved_at;
  delete from generations g where not exists (select 1 from agents a where a.project_id = g.project_id and a.id = g.agent_id);
  alter table generations drop column initiator_generation_id, drop column max_call_depth, drop column content_mode,
    drop column awaited,
    add constraint generations_project_id_agent_id_fkey foreign key (project_id, agent_id) references agents (project_id, id);
  delete from tools where type in ('mcp', 'builtin', 'pipeline');
  alter table tools drop column mcp, drop column actions, drop column denied_actions, drop column preset_parameters,
    drop column context_keys, drop column pipeline, drop column output_mapping, drop constraint tools_type_check,
    add constraint tools_type_check check (type in ('http', 'client'));
  alter table ai_providers drop column literals_key_id, drop column literals_data;`,
  );
