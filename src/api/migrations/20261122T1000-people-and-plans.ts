import { runSql } from './step';
import type { Step } from './step';

export const up = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  -- The newest plan line, kept here too; a pending downgrade waits in the columns of the next plan.
  alter table users add column plan text not null default 'free', add column retention_days integer,
    add column balance_usd numeric(20,12) not null default 0,
    add column next_plan text, add column next_plan_at timestamptz(3), add column next_plan_reason text,
    add column next_plan_granted_by_user_id text,
    add constraint users_next_plan_check check ((next_plan is null) = (next_plan_at is null));
  create index users_list_idx on users (created_at desc, id desc);
  create index users_next_plan_idx on users (id) where next_plan is not null;

  create table plan_lines (
    id text primary key, user_id text not null references users (id), plan text not null, retention_days integer,
    reason text, granted_by_user_id text, effective_at timestamptz(3) not null, created_at timestamptz(3) not null);
  create index plan_lines_list_idx on plan_lines (user_id, created_at desc, id desc);
  create trigger plan_lines_append_only before update or delete on plan_lines
    for each row execute function refuse_rewrite();

  -- Months whose turn is done, as 2026-11.
  create table month_turns (month text primary key, turned_at timestamptz(3) not null);

  -- Runs of a cycle by who pays; several rows a project, so that runs accepted at once do not wait for each other.
  -- Those of deleted projects stay, under the empty project id.
  create table run_counts (
    user_id text not null references users (id), month text not null, project_id text not null, shard smallint not null,
    runs integer not null, primary key (user_id, month, project_id, shard));
  create index run_counts_project_idx on run_counts (project_id);

  -- What sliding windows count, by the second; instance tells the process where each counts for itself.
  create table rate_windows (
    kind text not null, key text not null, second bigint not null, instance text not null default '',
    count integer not null, primary key (kind, key, second, instance));
  create index rate_windows_age_idx on rate_windows (second);

  alter table projects add column require_priced_model boolean not null default false,
    add column deleted_at timestamptz(3);
  create index projects_list_idx on projects (created_at desc, id desc);
  -- What the end of a project looks for.
  create index api_keys_project_idx on api_keys (project_id) where project_id is not null;
  create index project_idempotency_keys_project_idx on project_idempotency_keys (project_id);

  -- A pause or an end of one that has not reached every run and Schedule yet.
  create table project_pauses (
    project_id text primary key references projects (id) on delete cascade,
    run_seen_at timestamptz(3), changed_at timestamptz(3) not null);

  create index refresh_tokens_expiry_idx on refresh_tokens (expires_at);

  -- The mail of an invitation is due while this is null.
  alter table project_members add column run_seen_at timestamptz(3);
  create index project_members_unseen_idx on project_members (created_at)
    where run_seen_at is null and invited_by_user_id is not null;
  create index project_members_list_idx on project_members (project_id, created_at, id);`,
  );

export const down = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  drop index project_members_list_idx, project_members_unseen_idx, refresh_tokens_expiry_idx;
  alter table project_members drop column run_seen_at;
  drop table project_pauses;
  drop index projects_list_idx, api_keys_project_idx, project_idempotency_keys_project_idx;
  delete from projects where deleted_at is not null;
  alter table projects drop column deleted_at, drop column require_priced_model;
  drop table rate_windows, run_counts, month_turns, plan_lines;
  drop index users_next_plan_idx, users_list_idx;
  alter table users drop constraint users_next_plan_check, drop column plan, drop column retention_days, drop column balance_usd,
    drop column next_plan, drop column next_plan_at, drop column next_plan_reason, drop column next_plan_granted_by_user_id;`,
  );
