import { Client } from 'pg';
import { openDatabase } from '../../src/api/core/db-pool';
import { migrate } from '../../src/api/migrations';
import { migrateUp } from '../../src/migrate';

const name = `migrations_${String(process.pid)}`;
const url = (() => {
  const address = new URL(process.env.TEST_DATABASE_ADMIN_URL ?? '');
  address.pathname = `/${name}`;
  return address.toString();
})();

const asAdmin = async (sql: string): Promise<void> => {
  const client = new Client({ connectionString: process.env.TEST_DATABASE_ADMIN_URL });
  await client.connect();
  await client.query(sql);
  await client.end();
};

const tables = async (): Promise<string[]> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ table_name: string }>(
    "select table_name from information_schema.tables where table_schema = 'public' order by 1",
  );
  await client.end();
  return rows.map((row) => row.table_name);
};

beforeAll(() => asAdmin(`create database ${name}`));
afterAll(() => asAdmin(`drop database ${name} with (force)`));

test('two processes that migrate at once leave one schema, and a repeat does nothing', async () => {
  await Promise.all([migrateUp(url), migrateUp(url)]);
  expect(await tables()).toEqual(
    expect.arrayContaining(['generations', 'schema_migrations', 'users', 'webhook_deliveries']),
  );
  const db = openDatabase(url, 3);
  expect(await migrate(db, 'up')).toEqual([]);
  await db.close();
});

test('a schema that is newer than the build is refused', async () => {
  const db = openDatabase(url, 3);
  await db.query("insert into schema_migrations (name) values ('29990101T0000-from-the-future')");
  await expect(migrate(db, 'up')).rejects.toThrow(/newer than this build: 29990101T0000-from-the-future/);
  await db.query("delete from schema_migrations where name like '2999%'");
  await db.close();
});

test('every migration can be taken back', async () => {
  const db = openDatabase(url, 3);
  for (let undone = 1; undone > 0;) undone = (await migrate(db, 'down')).length;
  await db.close();
  expect(await tables()).toEqual(['schema_migrations']);
});

test('an archived version is never rewritten', async () => {
  await migrateUp(url);
  const db = openDatabase(url, 3);
  await db.query(
    `insert into users (id, email, email_verified, created_at, updated_at) values ('u', 'e', true, now(), now())`,
  );
  await db.query(
    `insert into projects (id, owner_user_id, name, created_at, updated_at) values ('p', 'u', 'n', now(), now())`,
  );
  await db.query(
    `insert into ai_providers (id, project_id, name, provider, default_model, created_at, updated_at) values ('a', 'p', 'n', 'custom', 'm', now(), now())`,
  );
  await db.query(
    `insert into agents (id, project_id, ai_provider_id, config, version, last_version, created_at, updated_at) values ('g', 'p', 'a', '{}', 1, 1, now(), now())`,
  );
  await db.query(
    `insert into agent_versions (id, project_id, agent_id, version, config, created_at) values ('v', 'p', 'g', 1, '{}', now())`,
  );
  await expect(db.query(`update agent_versions set config = '{"x":1}' where id = 'v'`)).rejects.toThrow(
    /never rewritten/,
  );
  await db.query(`update agent_versions set eval_run_id = 'evrun_x' where id = 'v'`);
  await db.close();
});
