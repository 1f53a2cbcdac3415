import { queryOne } from './api/core/db';
import { currentKeyId } from './api/core/encryption';
import { startRun } from './api/core/temporal';
import { REENCRYPTION } from './workflows/reencryption.contract';
import type { ReencryptionInput } from './workflows/reencryption.contract';

/** At worker start: when values are encrypted under another key than the present one, a run brings them under it. Safe to repeat. */
export async function startReencryption(): Promise<void> {
  const keyId = currentKeyId();
  const found = await queryOne(
    `select 1 as found from (
       (select 1 from secrets where value_key_id <> $1 limit 1) union all
       (select 1 from webhooks where secret_key_id <> $1 limit 1) union all
       (select 1 from tools where literals_key_id <> $1 limit 1) union all
       (select 1 from ai_providers where literals_key_id <> $1 limit 1) union all
       (select 1 from agent_credentials where literals_key_id <> $1 limit 1) union all
       (select 1 from generation_contents where key_id <> $1 limit 1)) as other_keys limit 1`,
    [keyId],
  );
  if (found === null) return;
  const input: ReencryptionInput = { keyId };
  await startRun({
    type: REENCRYPTION,
    id: `reencrypt/${keyId}`,
    args: [input],
    labels: { resourceType: 'encryption_key', resourceId: keyId },
    memo: { trigger: 'worker' },
    mayRepeat: true,
  });
}
