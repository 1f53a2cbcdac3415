import { createCipheriv, createHash, randomBytes } from 'node:crypto';
import { config } from '../../src/api/core/config';
import { query, queryOne } from '../../src/api/core/db';
import { currentKeyId, decrypt } from '../../src/api/core/encryption';
import { newId } from '../../src/api/core/ids';
import { engine, runEnded } from '../../src/api/core/temporal';
import { inlineLiterals } from '../../src/api/tools/inline';
import { providerAccess } from '../../src/api/providers/service';
import { ensureEngine, isNewEnough } from '../../src/engine-setup';
import { startReencryption } from '../../src/reencryption';
import { useService } from '../support/app';
import { created } from '../support/builders';
import type { ApiClient } from '../support/client';

const service = useService({ worker: true });

const oldKey = randomBytes(32);
const oldKeyId = createHash('sha256').update(oldKey).digest('hex').slice(0, 8);

/** As an earlier deployment stored it, under another key. */
function underOldKey(text: string, place: string): Buffer {
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', oldKey, nonce).setAAD(Buffer.from(place));
  const body = Buffer.concat([cipher.update(text), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]);
}

async function pausedRow(projectId: string): Promise<string> {
  const id = newId('generation');
  await query(
    `with trace as (insert into traces (id, project_id, agent_id, created_at, updated_at) values ($3, $2, 'agent_x', now(), now())),
     run as (insert into generations (id, project_id, agent_id, agent_version, trace_id, status, pause, run_seen_at, content_mode, created_at, updated_at)
       values ($1, $2, 'agent_x', 1, $3, 'failed', 1, now(), 'none', now(), now()) returning id)
     select 1 from run`,
    [id, projectId, newId('trace')],
  );
  await query('insert into generation_contents (generation_id, project_id, key_id, key_data) values ($1, $2, $3, $4)', [
    id,
    projectId,
    oldKeyId,
    underOldKey('the key of a run', `generation_contents/key/${id}`),
  ]);
  return id;
}

/** Credentials of an inline tool, under the old key. */
async function inlineCredentials(api: ApiClient, at: string, ai_provider_id: string): Promise<string> {
  const execute = { url: 'https://example.com/', headers: { Authorization: 'x' } };
  const tool_bindings = [{ tool: { name: 'own', parameters: { type: 'object' }, execute } }];
  const agent = created(await api.post(`${at}/agents`, { ai_provider_id, tool_bindings }));
  const row = await queryOne<{ id: string }>('select id from agent_credentials where agent_id = $1', [agent.id]);
  await query('update agent_credentials set literals_key_id = $2, literals_data = $3 where id = $1', [
    row!.id,
    oldKeyId,
    underOldKey('{"place":"the old credential"}', `agent_credentials/literals/${row!.id}`),
  ]);
  return row!.id;
}

test('values under an older key stay readable, and a run at worker start brings them under the present one', async () => {
  config().SECRETS_DECRYPTION_KEYS.push(`${oldKeyId}:${oldKey.toString('hex')}`);
  const owner = await service.signedIn();
  const project = await service.project(owner);
  const api = service.client(owner.token);
  const at = `/v1/projects/${project.id}`;
  const readable = created(await api.post(`${at}/secrets`, { name: 'a', value: 'x' }));
  const lost = created(await api.post(`${at}/secrets`, { name: 'b', value: 'x' }));
  const webhook = created(await api.post(`${at}/webhooks`, { url: 'http://127.0.0.1:9/hook', events: ['*'] }));
  await query('update secrets set value_key_id = $2, value_data = $3 where id = $1', [
    readable.id,
    oldKeyId,
    underOldKey('the old value', `secrets/value/${String(readable.id)}`),
  ]);
  await query("update secrets set value_key_id = 'deadbeef' where id = $1", [lost.id]);
  const bedrock = { region: 'eu-central-1', apiKey: 'x' };
  const provider = created(
    await api.post(`${at}/ai-providers`, { name: 'p', provider: 'bedrock', default_model: 'm', config: bedrock }),
  );
  await query('update ai_providers set literals_key_id = $2, literals_data = $3 where id = $1', [
    provider.id,
    oldKeyId,
    underOldKey('{"apiKey":"the old key"}', `ai_providers/literals/${String(provider.id)}`),
  ]);
  expect(await providerAccess(project.id, provider.id)).toMatchObject({ apiKey: 'the old key' });
  // A paused run under zero retention, as far as its key goes.
  const generationId = await pausedRow(project.id);
  await query('update webhooks set secret_key_id = $2, secret_data = $3 where id = $1', [
    webhook.id,
    oldKeyId,
    underOldKey('whsec_old', `webhooks/secret/${String(webhook.id)}`),
  ]);
  const credentialsId = await inlineCredentials(api, at, provider.id as string);
  await startReencryption();
  expect(await runEnded(`reencrypt/${currentKeyId()}`, 20_000)).toBe(true);
  expect(await queryOne('select literals_key_id as key from agent_credentials where id = $1', [credentialsId])).toEqual(
    {
      key: currentKeyId(),
    },
  );
  expect(await inlineLiterals(project.id, credentialsId)).toEqual(new Map([['place', 'the old credential']]));
  const row = await queryOne<{ key: string; data: Buffer }>(
    'select value_key_id as key, value_data as data from secrets where id = $1',
    [readable.id],
  );
  expect(row?.key).toBe(currentKeyId());
  expect(decrypt({ keyId: row!.key, data: row!.data }, { table: 'secrets', column: 'value', rowId: readable.id })).toBe(
    'the old value',
  );
  const contents = await queryOne<{ id: string; data: Buffer }>(
    'select key_id as id, key_data as data from generation_contents where generation_id = $1',
    [generationId],
  );
  expect(contents?.id).toBe(currentKeyId());
  expect(
    decrypt(
      { keyId: currentKeyId(), data: contents!.data },
      { table: 'generation_contents', column: 'key', rowId: generationId },
    ),
  ).toBe('the key of a run');
  const hook = await queryOne<{ key: string; data: Buffer }>(
    'select secret_key_id as key, secret_data as data from webhooks where id = $1',
    [webhook.id],
  );
  expect(
    decrypt({ keyId: hook!.key, data: hook!.data }, { table: 'webhooks', column: 'secret', rowId: webhook.id }),
  ).toBe('whsec_old');
  expect(await queryOne('select literals_key_id as key from ai_providers where id = $1', [provider.id])).toEqual({
    key: currentKeyId(),
  });
  expect(await providerAccess(project.id, provider.id)).toMatchObject({ apiKey: 'the old key' });
  // Without its key a value stays as it is, for the day the key is found.
  expect(await queryOne('select value_key_id as key from secrets where id = $1', [lost.id])).toEqual({
    key: 'deadbeef',
  });
  const result = (await engine().workflow.getHandle(`reencrypt/${currentKeyId()}`).result()) as { unreadable: number };
  expect(result.unreadable).toBeGreaterThanOrEqual(1);
  await query('delete from secrets where id = $1', [lost.id]);
});

test('a key in the config of a provider alone is reason for a run', async () => {
  const owner = await service.signedIn();
  const project = await service.project(owner);
  const bedrock = { region: 'eu-central-1', apiKey: 'x' };
  const { id } = created(
    await service.client(owner.token).post(`/v1/projects/${project.id}/ai-providers`, {
      name: 'p',
      provider: 'bedrock',
      default_model: 'm',
      config: bedrock,
    }),
  );
  const before = await engine().workflow.getHandle(`reencrypt/${currentKeyId()}`).describe();
  await query("update ai_providers set literals_key_id = 'deadbeef' where id = $1", [id]);
  await startReencryption();
  expect(await runEnded(`reencrypt/${currentKeyId()}`, 20_000)).toBe(true);
  const after = await engine().workflow.getHandle(`reencrypt/${currentKeyId()}`).describe();
  expect(after.runId).not.toBe(before.runId);
  await query('delete from ai_providers where id = $1', [id]);
});

test('with every value under the present key no run is started', async () => {
  const before = await engine().workflow.getHandle(`reencrypt/${currentKeyId()}`).describe();
  await startReencryption();
  const after = await engine().workflow.getHandle(`reencrypt/${currentKeyId()}`).describe();
  expect(after.runId).toBe(before.runId);
});

test('the engine keeps closed runs for 30 days, knows our search attributes, and must be 1.28 or newer', async () => {
  await ensureEngine();
  await ensureEngine();
  const { namespace } = engine().options;
  const described = await engine().workflowService.describeNamespace({ namespace });
  expect(Number(described.config?.workflowExecutionRetentionTtl?.seconds)).toBe(30 * 86_400);
  expect(['1.27.9', '0.30.0', '1.28.0', '1.32.0', '2.0.0'].map(isNewEnough)).toEqual([false, false, true, true, true]);
});
