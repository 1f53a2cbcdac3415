import { Umzug } from 'umzug';
import type { Sequelize } from 'sequelize';
import { QueryTypes } from 'sequelize';
import * as accounts from './20261121T0900-create-accounts';
import * as agents from './20261121T0910-create-agents';
import * as generations from './20261121T0920-create-generations';
import * as webhooks from './20261121T0930-create-webhooks';
import * as runs from './20261121T1000-widen-runs';
import * as credentials from './20261122T0900-agent-credentials';
import * as purgedEvents from './20261122T0910-mark-purged-events';
import * as people from './20261122T1000-people-and-plans';
import * as submissions from './20261122T1200-index-submissions';
import * as dueDeliveries from './20261122T1300-index-due-deliveries';
import * as projectTotals from './20261122T1500-index-project-totals';

const migrations = [
  { name: '20261121T0900-create-accounts', up: accounts.up, down: accounts.down },
  { name: '20261121T0910-create-agents', up: agents.up, down: agents.down },
  { name: '20261121T0920-create-generations', up: generations.up, down: generations.down },
  { name: '20261121T0930-create-webhooks', up: webhooks.up, down: webhooks.down },
  { name: '20261121T1000-widen-runs', up: runs.up, down: runs.down },
  { name: '20261122T0900-agent-credentials', up: credentials.up, down: credentials.down },
  { name: '20261122T0910-mark-purged-events', up: purgedEvents.up, down: purgedEvents.down },
  { name: '20261122T1000-people-and-plans', up: people.up, down: people.down },
  { name: '20261122T1200-index-submissions', up: submissions.up, down: submissions.down },
  { name: '20261122T1300-index-due-deliveries', up: dueDeliveries.up, down: dueDeliveries.down },
  { name: '20261122T1500-index-project-totals', up: projectTotals.up, down: projectTotals.down },
];

/** Any number will do as long as nothing else in the database takes it. */
const LOCK = 7_301_126;

/** Names of applied migrations, in a table of our own: umzug asks for these three functions. */
const storageOf = (db: Sequelize) => ({
  logMigration: async ({ name }: { name: string }): Promise<void> => {
    await db.query('insert into schema_migrations (name) values ($1)', { bind: [name] });
  },
  unlogMigration: async ({ name }: { name: string }): Promise<void> => {
    await db.query('delete from schema_migrations where name = $1', { bind: [name] });
  },
  executed: async (): Promise<string[]> => {
    await db.query(
      'create table if not exists schema_migrations (name text primary key, applied_at timestamptz not null default now())',
    );
    const rows = await db.query<{ name: string }>('select name from schema_migrations order by name', {
      type: QueryTypes.SELECT,
    });
    return rows.map(({ name }) => name);
  },
});

/**
 * Brings the schema to what this build knows, one process at a time: the advisory lock is held by a transaction of its
 * own connection, and ends with it. Safe to repeat.
 * @throws when the schema is newer than this build
 */
export async function migrate(db: Sequelize, direction: 'up' | 'down'): Promise<string[]> {
  const umzug = new Umzug({ migrations, context: db, storage: storageOf(db), logger: undefined });
  return db.transaction(async (transaction) => {
    await db.query('set local idle_in_transaction_session_timeout = 0', { transaction });
    await db.query('select pg_advisory_xact_lock($1)', { bind: [LOCK], transaction });
    const unknown = await unknownOf(db);
    if (unknown.length > 0) throw new Error(`The schema is newer than this build: ${unknown.join(', ')}`);
    const done = direction === 'up' ? await umzug.up() : await umzug.down();
    return done.map(({ name }) => name);
  });
}

async function unknownOf(db: Sequelize): Promise<string[]> {
  const known = new Set(migrations.map(({ name }) => name));
  return (await storageOf(db).executed()).filter((name) => !known.has(name));
}
