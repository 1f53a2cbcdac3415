import { patched, proxyActivities } from '@temporalio/workflow';
import type { Activities } from '../activities';
import { batch } from './options';
import {
  CONTENT_ENCRYPTED_TABLES,
  EARLIER_ENCRYPTED_TABLES,
  ENCRYPTED_TABLES,
  FIRST_ENCRYPTED_TABLES,
} from './reencryption.contract';
import type { EncryptedTable, ReencryptBatchResult, ReencryptionInput } from './reencryption.contract';

const { reencryptBatch } = proxyActivities<Activities>(batch);

/** Brings every encrypted value under one key, table by table; answers how many could not be read. */
export async function reencryption({ keyId }: ReencryptionInput): Promise<{ changed: number; unreadable: number }> {
  const total = { changed: 0, unreadable: 0 };
  for (const table of tablesToVisit()) {
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

/** A run goes on through the tables that it began with. */
function tablesToVisit(): readonly EncryptedTable[] {
  if (patched('reencrypt-agent-credentials')) return ENCRYPTED_TABLES;
  if (patched('reencrypt-contents')) return CONTENT_ENCRYPTED_TABLES;
  return patched('reencrypt-providers') ? EARLIER_ENCRYPTED_TABLES : FIRST_ENCRYPTED_TABLES;
}
