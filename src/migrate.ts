import { databaseUrl } from './api/core/config';
import { openDatabase } from './api/core/db-pool';
import { migrate } from './api/migrations';

/**
 * Brings the database at that address to the schema of this build; safe to repeat and to run side by side.
 * @throws when the schema is newer than this build
 */
export async function migrateUp(databaseUrl: string): Promise<void> {
  const db = openDatabase(databaseUrl, 3);
  try {
    await migrate(db, 'up');
  } finally {
    await db.close();
  }
}

async function main(direction: string | undefined): Promise<void> {
  const url = process.argv[3] ?? databaseUrl();
  if (url === undefined || (direction !== 'up' && direction !== 'down')) {
    throw new Error('usage: migrate up|down [DATABASE_URL]');
  }
  const db = openDatabase(url, 3);
  try {
    const names = await migrate(db, direction);
    process.stdout.write(names.length === 0 ? 'Nothing to do.\n' : `${direction}: ${names.join(', ')}\n`);
  } finally {
    await db.close();
  }
}

if (require.main === module) {
  main(process.argv[2]).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  });
}
