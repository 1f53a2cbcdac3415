import { query, queryOne } from '../core/db';
import type { Tx } from '../core/db';

const IDS_SHOWN_MAX = 20;

/** What uses a secret: the first ids of each kind and how many there are. */
export interface SecretDependents {
  aiProviderIds: string[];
  aiProviderCount: number;
  toolIds: string[];
  toolCount: number;
}

interface Found {
  ids: string[];
  count: number;
}

// The areas that use secrets import this one, so it asks for their rows by statement and not through their services.
const PROVIDERS = `select coalesce((array_agg(id order by created_at, id))[1:$3], '{}') as ids, count(*)::int as count
  from ai_providers where project_id = $1 and secret_id = $2`;
const TOOLS = `select coalesce((array_agg(id order by created_at, id))[1:$3], '{}') as ids, count(*)::int as count
  from tools where project_id = $1 and secret_ids @> array[$2]`;

/** The providers and tools that use a secret, the oldest first. */
export async function dependentsOf(projectId: string, secretId: string, tx: Tx): Promise<SecretDependents> {
  const bind = [projectId, secretId, IDS_SHOWN_MAX];
  const providers = await queryOne<Found>(PROVIDERS, bind, tx);
  const tools = await queryOne<Found>(TOOLS, bind, tx);
  return {
    aiProviderIds: providers?.ids ?? [],
    aiProviderCount: providers?.count ?? 0,
    toolIds: tools?.ids ?? [],
    toolCount: tools?.count ?? 0,
  };
}

/** Takes a secret from the providers that use it. Tools keep their token: their calls then fail naming the secret. */
export async function unlinkProviders(
  { projectId, secretId, at }: { projectId: string; secretId: string; at: Date },
  tx: Tx,
): Promise<void> {
  await query(
    'update ai_providers set secret_id = null, updated_at = $3 where project_id = $1 and secret_id = $2 returning id',
    [projectId, secretId, at],
    tx,
  );
}
