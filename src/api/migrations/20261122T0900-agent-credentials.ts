import { runSql } from './step';
import type { Step } from './step';

export const up = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  -- Credentials written out in an inline tool of an agent; versions are never rewritten, so they name the row instead.
  create table agent_credentials (
    id text primary key, project_id text not null, agent_id text not null,
    literals_key_id text not null, literals_data bytea not null, created_at timestamptz(3) not null,
    foreign key (project_id, agent_id) references agents (project_id, id) on delete cascade);
  create index agent_credentials_agent_idx on agent_credentials (project_id, agent_id);`,
  );

export const down = ({ context }: Step): Promise<void> => runSql(context, 'drop table agent_credentials;');
