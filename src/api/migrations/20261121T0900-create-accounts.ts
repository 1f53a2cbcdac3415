import { runSql } from './step';
import type { Step } from './step';

export const up = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  create table users (
    id text primary key, email text not null unique, name text, email_verified boolean not null,
    roles text[] not null default '{}', created_at timestamptz(3) not null, updated_at timestamptz(3) not null);

  create table suppressed_addresses (
    email text primary key, reason text not null check (reason in ('bounce', 'complaint', 'manual')),
    created_at timestamptz(3) not null);

  -- One live code an address; the hash arrives with the mail.
  create table sign_in_codes (
    id text primary key, email text not null unique, hash bytea, guesses integer not null default 0,
    run_seen_at timestamptz(3), expires_at timestamptz(3) not null, created_at timestamptz(3) not null);
  create index sign_in_codes_unseen_idx on sign_in_codes (created_at) where run_seen_at is null;

  -- Accepted requests for a code, counted by the caps of an address.
  create table sign_in_requests (id bigint generated always as identity primary key, email text not null, created_at timestamptz(3) not null);
  create index sign_in_requests_email_idx on sign_in_requests (email, created_at desc);
  create index sign_in_requests_age_idx on sign_in_requests (created_at);

  create table session_families (
    id text primary key, user_id text not null references users (id) on delete cascade,
    revoked_at timestamptz(3), expires_at timestamptz(3) not null, created_at timestamptz(3) not null);
  create index session_families_user_idx on session_families (user_id);
  create index session_families_expiry_idx on session_families (expires_at);

  create table refresh_tokens (
    hash bytea primary key, family_id text not null references session_families (id) on delete cascade,
    spent_at timestamptz(3), expires_at timestamptz(3) not null, created_at timestamptz(3) not null);
  create index refresh_tokens_family_idx on refresh_tokens (family_id);

  create table projects (
    id text primary key, owner_user_id text not null references users (id), name text not null,
    status text not null default 'active' check (status in ('active', 'archived')),
    paused_at timestamptz(3), pause_reason text,
    max_concurrent_runs integer, max_chain_generations integer, max_orchestration_run_depth integer,
    audit_reads_enabled boolean not null default false, managed_conversion boolean not null default true,
    trace_content_retention_days integer,
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null);
  create index projects_owner_idx on projects (owner_user_id);

  create table project_members (
    id text primary key, project_id text not null references projects (id) on delete cascade,
    user_id text references users (id), email text not null, role text not null check (role in ('owner', 'admin', 'member')),
    invited_by_user_id text, created_at timestamptz(3) not null, updated_at timestamptz(3) not null,
    unique (project_id, email));
  create unique index project_members_user_idx on project_members (user_id, project_id) where user_id is not null;
  create unique index project_members_owner_idx on project_members (project_id) where role = 'owner';
  create index project_members_email_idx on project_members (email) where user_id is null;

  create table project_idempotency_keys (
    user_id text not null references users (id) on delete cascade, key text not null, request_hash bytea not null,
    project_id text not null references projects (id) on delete cascade, created_at timestamptz(3) not null,
    primary key (user_id, key));
  create index project_idempotency_keys_age_idx on project_idempotency_keys (created_at);

  create table api_keys (
    id text primary key, user_id text not null references users (id) on delete cascade,
    project_id text references projects (id) on delete cascade, name text not null,
    key_hash bytea not null unique, key_prefix text not null, last_used_at timestamptz(3),
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null);
  create index api_keys_user_idx on api_keys (user_id, created_at desc, id desc);`,
  );

export const down = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `drop table api_keys, project_idempotency_keys, project_members, projects, refresh_tokens, session_families,
       sign_in_requests, sign_in_codes, suppressed_addresses, users;`,
  );
