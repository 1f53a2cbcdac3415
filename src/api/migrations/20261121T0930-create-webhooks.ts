import { runSql } from './step';
import type { Step } from './step';

export const up = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  create table webhooks (
    id text primary key, project_id text not null references projects (id) on delete cascade,
    url text not null, events text[] not null, description text, active boolean not null,
    secret_key_id text not null, secret_data bytea not null,
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null, unique (project_id, id));
  create index webhooks_project_idx on webhooks (project_id, created_at desc, id desc);

  -- body is the envelope's text as it is signed and sent: a json column would reorder its keys.
  create table events (
    id text primary key, project_id text not null references projects (id) on delete cascade, type text not null,
    resource_type text not null, resource_id text not null, body text not null, causation text[] not null default '{}',
    created_at timestamptz(3) not null, unique (project_id, id));
  create index events_resource_idx on events (resource_id);
  create index events_age_idx on events (created_at);

  create table webhook_deliveries (
    id text primary key, project_id text not null, webhook_id text not null, event_id text not null, event_type text not null,
    status text not null check (status in ('pending', 'success', 'failed')), status_code integer, attempts integer not null default 0,
    next_attempt_at timestamptz(3), last_attempt_at timestamptz(3), response_body text,
    claimed_until timestamptz(3), run_seen_at timestamptz(3), redelivery boolean not null default false,
    created_at timestamptz(3) not null, updated_at timestamptz(3) not null, unique (project_id, id),
    foreign key (project_id, webhook_id) references webhooks (project_id, id) on delete cascade,
    foreign key (project_id, event_id) references events (project_id, id) on delete cascade);
  create unique index webhook_deliveries_first_idx on webhook_deliveries (webhook_id, event_id) where not redelivery;
  create index webhook_deliveries_project_idx on webhook_deliveries (project_id, created_at desc, id desc);
  create index webhook_deliveries_webhook_idx on webhook_deliveries (webhook_id, created_at desc, id desc);
  create index webhook_deliveries_event_idx on webhook_deliveries (event_id);
  create index webhook_deliveries_due_idx on webhook_deliveries (next_attempt_at) where status = 'pending';
  create index webhook_deliveries_settled_idx on webhook_deliveries (created_at) where status <> 'pending';

  create table webhook_delivery_attempts (
    delivery_id text not null references webhook_deliveries (id) on delete cascade, number integer not null,
    started_at timestamptz(3) not null, duration_ms integer not null, status_code integer, error text,
    primary key (delivery_id, number));`,
  );

export const down = ({ context }: Step): Promise<void> =>
  runSql(context, 'drop table webhook_delivery_attempts, webhook_deliveries, events, webhooks;');
