import { Client } from 'pg';

const adminUrl = (): string => {
  const url = process.env.TEST_DATABASE_ADMIN_URL;
  if (url === undefined) throw new Error('TEST_DATABASE_ADMIN_URL is not set');
  return url;
};

/** Makes the database of this jest worker from the migrated template, unless an earlier file of the worker did. */
export async function ensureDatabase(): Promise<void> {
  const name = new URL(process.env.DATABASE_URL ?? '').pathname.slice(1);
  const client = new Client({ connectionString: adminUrl() });
  await client.connect();
  try {
    const found = await client.query('select 1 from pg_database where datname = $1', [name]);
    // Cloning one template twice at once fails; the lock makes the workers take turns.
    await client.query('select pg_advisory_lock(42)');
    if (found.rowCount === 0) await client.query(`create database "${name}" template template`);
  } finally {
    await client.end();
  }
}
