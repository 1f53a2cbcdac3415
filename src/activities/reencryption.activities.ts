import { heartbeat } from '@temporalio/activity';
import { query, queryOne } from '../api/core/db';
import { currentKeyId, decrypt, encrypt } from '../api/core/encryption';
import { log } from '../api/core/log';
import type { EncryptedTable, ReencryptBatchInput, ReencryptBatchResult } from '../workflows/reencryption.contract';
import { retryIn } from './failures';

const ROWS_A_BATCH = 500;
const OTHER_WORKER_MS = 5_000;

/** Where each table keeps its ciphertext; the names are ours and never a caller's. */
const columns: Record<EncryptedTable, { id?: string; keyId: string; data: string; place: string }> = {
  secrets: { keyId: 'value_key_id', data: 'value_data', place: 'value' },
  webhooks: { keyId: 'secret_key_id', data: 'secret_data', place: 'secret' },
  tools: { keyId: 'literals_key_id', data: 'literals_data', place: 'literals' },
  ai_providers: { keyId: 'literals_key_id', data: 'literals_data', place: 'literals' },
  agent_credentials: { keyId: 'literals_key_id', data: 'literals_data', place: 'literals' },
  generation_contents: { id: 'generation_id', keyId: 'key_id', data: 'key_data', place: 'key' },
};

export const reencryptionActivities = () => ({
  /**
   * Brings one batch of a table under the present key. A row that was changed meanwhile is left alone: it has the present
   * key already. Safe to repeat.
   */
  async reencryptBatch({ keyId, table, after }: ReencryptBatchInput): Promise<ReencryptBatchResult> {
    if (currentKeyId() !== keyId) throw retryIn(OTHER_WORKER_MS); // A worker of the new deployment will take it.
    const { id = 'id', keyId: keyColumn, data: dataColumn, place } = columns[table];
    const rows = await query<{ id: string; key_id: string; data: Buffer }>(
      `select ${id} as id, ${keyColumn} as key_id, ${dataColumn} as data from ${table}
       where ${keyColumn} is not null and ${keyColumn} <> $1 and ${id} > $2 order by ${id} limit $3`,
      [keyId, after ?? '', ROWS_A_BATCH],
    );
    let changed = 0;
    let unreadable = 0;
    for (const row of rows) {
      heartbeat();
      const at = { table, column: place, rowId: row.id };
      const text = decrypt({ keyId: row.key_id, data: row.data }, at);
      if (text === null) {
        unreadable += 1;
        log.warn({ msg: 'no key opens this row', table, row_id: row.id, key_id: row.key_id });
        continue;
      }
      const fresh = encrypt(text, at);
      const written = await queryOne(
        `update ${table} set ${keyColumn} = $2, ${dataColumn} = $3 where ${id} = $1 and ${dataColumn} = $4 returning ${id} as id`,
        [row.id, fresh.keyId, fresh.data, row.data],
      );
      if (written !== null) changed += 1;
    }
    return { changed, unreadable, after: rows.length < ROWS_A_BATCH ? null : (rows.at(-1)?.id ?? null) };
  },
});
