import { patched, proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';
import { batch } from './options';
import { ENCRYPTED_TABLES, FIRST_ENCRYPTED_TABLES } from './reencryption.contract';
import type { EncryptedTable, ReencryptBatchResult, ReencryptionInput } from './reencryption.contract';

const { reencryptBatch } = proxyActivities<Activities>(batch);

/** Brings every encrypted value under one key, table by table; answers how many could not be read. */
export async function reencryption({ keyId }: ReencryptionInput): Promise<{ changed: number; unreadable: number }> {
  const total = { changed: 0, unreadable: 0 };
  const tables: readonly EncryptedTable[] = patched('reencrypt-providers') ? ENCRYPTED_TABLES : FIRST_ENCRYPTED_TABLES;
  for (const table of tables) {
    let after: string | null = null;
    do {
      const done: ReencryptBatchResult = await reencryptBatch({ keyId, table, after });
      total.changed += done.changed;
      total.unreadable += done.unreadable;
      after = done.after;
    } while (after !== null);
  }
  return total;
}
