import { clock } from '../core/clock';
import { inTransaction, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, invalidInput, notFound } from '../core/errors';
import { isId, newId } from '../core/ids';
import { listByOffset } from '../core/pages';
import { missingSecrets, openSecret, secretValue } from '../secrets/service';
import type { StoredSecret } from '../secrets/service';
import { modelAccess, readConfigKey, storedSettings } from './access';
import type { ConfigInput, ModelAccess } from './access';
import { AiProvider } from './models';
import { combinationProblem } from './vendors';
import type { Combination, Vendor } from './vendors';

export interface AiProviderInput {
  name: string;
  provider: Vendor;
  defaultModel: string;
  secretId: string | null;
  baseUrl: string | null;
  config: ConfigInput | null;
}

/**
 * What a model call needs of a provider, or why there is none: its row is gone, the value behind its secret is, or that
 * value has no shape that the vendor knows.
 */
export type ProviderAccess =
  (ModelAccess & { ok: true; defaultModel: string }) | { ok: false; reason: 'gone' | 'secret_gone' | 'misconfigured' };

/**
 * Stores a provider. No vendor is called: a wrong key shows when a model is. Not repeatable: each call makes one.
 * @throws SECRET_NOT_FOUND, VALIDATION_FAILED
 */
export async function createAiProvider(projectId: string, input: AiProviderInput): Promise<AiProvider> {
  const id = newId('aiProvider');
  const { config, ...plain } = input;
  const settings = storedSettings({ id, provider: input.provider }, config);
  assertFits({ ...plain, config: settings.config });
  return inTransaction(async (tx) => {
    await assertSecret(projectId, input.secretId, tx);
    const now = clock.now();
    return AiProvider.create(
      { id, projectId, ...plain, ...settings, createdAt: now, updatedAt: now },
      { transaction: tx },
    );
  });
}

/**
 * Changes the given fields of a provider, used from the next model call on; `config` is replaced whole. What the change
 * leaves behind must fit together. Repeatable.
 * @throws not_found, SECRET_NOT_FOUND, VALIDATION_FAILED
 */
export async function updateAiProvider(
  projectId: string,
  aiProviderId: string,
  change: Partial<AiProviderInput>,
): Promise<AiProvider> {
  const { config, ...plain } = change;
  return inTransaction(async (tx) => {
    const row = await AiProvider.findOne({
      where: { projectId, id: aiProviderId },
      transaction: tx,
      lock: tx.LOCK.NO_KEY_UPDATE,
    });
    if (row === null) throw notFound();
    row.set(plain);
    if (config !== undefined) row.set(storedSettings(row, config));
    assertFits(row);
    if (change.secretId !== undefined) await assertSecret(projectId, change.secretId, tx);
    return row.set({ updatedAt: clock.now() }).save({ transaction: tx });
  });
}

/**
 * Deletes a provider. Agents on it always block; prices set on it and the history of calls it served block only without
 * `force`: the prices go with it, the history keeps the provider's id. The row is locked first, so that an agent or a
 * price being written with it is either counted or refused.
 * @throws not_found, AI_PROVIDER_HAS_DEPENDENTS
 */
export async function deleteAiProvider(projectId: string, aiProviderId: string, force: boolean): Promise<void> {
  await inTransaction(async (tx) => {
    const row = await AiProvider.findOne({
      where: { projectId, id: aiProviderId },
      transaction: tx,
      lock: tx.LOCK.UPDATE,
    });
    if (row === null) throw notFound();
    const { agents, prices, usage } = await dependentsOf(projectId, aiProviderId, tx);
    if (agents > 0 || (prices + usage > 0 && !force)) {
      throw new ApiError('AI_PROVIDER_HAS_DEPENDENTS', 'Agents, prices or usage history name this provider.', {
        meta: {
          agent_count: agents,
          chat_count: 0,
          model_route_count: 0,
          price_count: prices,
          usage_count: usage,
          forcible: agents === 0,
        },
      });
    }
    await row.destroy({ transaction: tx });
  });
}

/** One provider of the project. @throws not_found */
export async function getAiProvider(projectId: string, aiProviderId: string): Promise<AiProvider> {
  const row = await findProvider(projectId, aiProviderId);
  if (row === null) throw notFound();
  return row;
}

/** A page of the project's providers, newest first. */
export const listAiProviders = (projectId: string, page: { limit: number; offset: number }) =>
  listByOffset(AiProvider, { where: { projectId }, ...page });

/**
 * A provider of the project, or null. Inside a transaction it is held until the transaction ends, so that it is not
 * deleted while the row that names it is written.
 */
export async function findProvider(projectId: string, aiProviderId: string, tx?: Tx): Promise<AiProvider | null> {
  if (!isId('aiProvider', aiProviderId)) return null;
  return AiProvider.findOne({
    where: { projectId, id: aiProviderId },
    ...(tx === undefined ? {} : { transaction: tx, lock: tx.LOCK.KEY_SHARE }),
  });
}

type AccessRow = Pick<
  AiProvider,
  'id' | 'provider' | 'baseUrl' | 'config' | 'secretId' | 'defaultModel' | 'literalsKeyId' | 'literalsData'
>;

/**
 * How to call a provider now, its credential included, in one statement; nothing of it is kept beyond the call it is read
 * for. A provider of a vendor that takes a key, without a secret, answers `apiKey` null. Repeatable.
 */
export async function providerAccess(projectId: string, aiProviderId: string): Promise<ProviderAccess> {
  if (!isId('aiProvider', aiProviderId)) return { ok: false, reason: 'gone' };
  const row = await queryOne<AccessRow & StoredSecret>(
    `select p.id, p.provider, p.base_url as "baseUrl", p.config, p.secret_id as "secretId", p.default_model as "defaultModel",
       p.literals_key_id as "literalsKeyId", p.literals_data as "literalsData", s.value_key_id, s.value_data
     from ai_providers p left join secrets s on s.project_id = p.project_id and s.id = p.secret_id
     where p.project_id = $1 and p.id = $2`,
    [projectId, aiProviderId],
  );
  if (row === null) return { ok: false, reason: 'gone' };
  return accessWith(row, row.secretId === null ? null : openSecret(row.secretId, row));
}

/** The same for a row at hand. */
export const accessOf = async (row: AiProvider): Promise<ProviderAccess> =>
  accessWith(row, row.secretId === null ? null : await secretValue(row.projectId, row.secretId));

function accessWith(row: AccessRow, secret: string | null): ProviderAccess {
  const { provider, baseUrl, config, secretId, defaultModel } = row;
  if (secretId !== null && secret === null) return { ok: false, reason: 'secret_gone' };
  const configKey = readConfigKey(row.id, row);
  if (configKey === undefined) return { ok: false, reason: 'secret_gone' };
  const access = modelAccess({ provider, baseUrl, config, secret, configKey });
  return access === null ? { ok: false, reason: 'misconfigured' } : { ok: true, ...access, defaultModel };
}

function assertFits({ provider, baseUrl, secretId, config }: Combination): void {
  const problem = combinationProblem({ provider, baseUrl, secretId, config });
  if (problem !== null) throw invalidInput('VALIDATION_FAILED', problem.path, problem.message);
}

async function assertSecret(projectId: string, secretId: string | null, tx: Tx): Promise<void> {
  if (secretId === null) return;
  const [missing] = await missingSecrets(projectId, [secretId], tx);
  if (missing === undefined) return;
  throw new ApiError('SECRET_NOT_FOUND', 'secret_id names no secret of this project.', {
    details: [{ path: 'secret_id', message: 'names no secret of this project' }],
  });
}

interface Dependents {
  agents: number;
  prices: number;
  usage: number;
}

/** Agents and generations import this area, so it counts their rows by statement and not through their services. */
async function dependentsOf(projectId: string, aiProviderId: string, tx: Tx): Promise<Dependents> {
  const counts = await queryOne<Dependents>(
    `select (select count(*)::int from agents where project_id = $1 and ai_provider_id = $2) as agents,
            (select count(*)::int from prices where project_id = $1 and ai_provider_id = $2) as prices,
            (select count(*)::int from generations where project_id = $1 and ai_provider_id = $2) as usage`,
    [projectId, aiProviderId],
    tx,
  );
  return counts ?? { agents: 0, prices: 0, usage: 0 };
}
