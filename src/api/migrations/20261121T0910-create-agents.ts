import { runSql } from './step';
import type { Step } from './step';

export const up = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  create table secrets (
    id text primary key, project_id text not null references projects (id) on delete cascade, name text not null,
    value_key_id text not null, value_data bytea not null,
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null, unique (project_id, id));
  create index secrets_project_idx on secrets (project_id, created_at desc, id desc);

  create table ai_providers (
    id text primary key, project_id text not null references projects (id) on delete cascade, name text not null,
    provider text not null, default_model text not null, secret_id text, base_url text, config json,
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null, unique (project_id, id),
    foreign key (project_id, secret_id) references secrets (project_id, id));
  create index ai_providers_project_idx on ai_providers (project_id, created_at desc, id desc);
  create index ai_providers_secret_idx on ai_providers (project_id, secret_id) where secret_id is not null;

  -- Objects of callers are json, not jsonb: their keys are given back as they were sent.
  create table tools (
    id text primary key, project_id text not null references projects (id) on delete cascade, name text not null,
    type text not null check (type in ('http', 'client')), description text, parameters json, execute json,
    literals_key_id text, literals_data bytea, secret_ids text[] not null default '{}',
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null, unique (project_id, id));
  create index tools_project_idx on tools (project_id, created_at desc, id desc);
  create index tools_secrets_idx on tools using gin (secret_ids);

  -- The configuration is one document, the same as the versions archive; beside it what other rows are looked up by.
  create table agents (
    id text primary key, project_id text not null references projects (id) on delete cascade,
    ai_provider_id text not null, tool_ids text[] not null default '{}', config json not null,
    version integer not null, last_version integer not null,
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null, unique (project_id, id),
    foreign key (project_id, ai_provider_id) references ai_providers (project_id, id));
  create index agents_project_idx on agents (project_id, created_at desc, id desc);
  create index agents_provider_idx on agents (project_id, ai_provider_id);
  create index agents_tools_idx on agents using gin (tool_ids);

  create table agent_versions (
    id text primary key, project_id text not null, agent_id text not null, version integer not null,
    config json not null, label text, eval_run_id text, created_by text, created_at timestamptz(3) not null,
    unique (agent_id, version),
    foreign key (project_id, agent_id) references agents (project_id, id) on delete cascade);
  create index agent_versions_list_idx on agent_versions (agent_id, created_at desc, id desc);

  create function refuse_rewrite() returns trigger language plpgsql as $$
  begin
    raise exception 'rows of % are never rewritten', tg_table_name using errcode = 'restrict_violation';
  end $$;
  create trigger agent_versions_append_only before update of id, project_id, agent_id, version, config, label, created_by, created_at
    on agent_versions for each row execute function refuse_rewrite();`,
  );

export const down = ({ context }: Step): Promise<void> =>
  runSql(context, 'drop table agent_versions, agents, tools, ai_providers, secrets; drop function refuse_rewrite();');
