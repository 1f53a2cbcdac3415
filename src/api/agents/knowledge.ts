import { z } from 'zod';
import { ApiError, invalidInput } from '../core/errors';

const LIST_ENTRIES_MAX = 100;
const TAGS_MAX = 50;

const texts = (description: string) =>
  z.array(z.string().min(1).max(1024)).max(LIST_ENTRIES_MAX).optional().meta({ description });

/**
 * What is searched before every generation. This build has no documents and no memories: a configuration without ids is
 * kept for the time when it has, and an id names nothing.
 */
export const KnowledgeConfig = z
  .strictObject({
    document_paths: texts('Prefixes of document paths'),
    document_ids: texts('Documents; this build has none'),
    memory_store_ids: texts('Memory stores read from; this build has none'),
    tags: z
      .record(z.string().min(1).max(128), z.string().max(256))
      .refine((tags) => Object.keys(tags).length <= TAGS_MAX, `must be at most ${String(TAGS_MAX)} pairs`)
      .optional()
      .meta({ description: 'Pairs that documents and memories must have' }),
    min_score: z.number().min(0).max(1).optional().meta({ description: 'Least similarity of a passage' }),
    limit: z.int().min(1).max(100).optional().meta({ description: 'Passages that enter the context; 5 when absent' }),
    write_memory_store_id: z.string().optional().meta({ description: 'Memory store written to; this build has none' }),
  })
  .meta({ id: 'KnowledgeConfig' });

/** Refuses ids, since none exists. @throws DOCUMENT_NOT_FOUND, MEMORY_STORE_NOT_FOUND, VALIDATION_FAILED */
export function assertKnowledge(config: z.output<typeof KnowledgeConfig> | null): void {
  if (config === null) return;
  refuse('DOCUMENT_NOT_FOUND', 'document_ids', config.document_ids);
  refuse('MEMORY_STORE_NOT_FOUND', 'memory_store_ids', config.memory_store_ids);
  if (config.write_memory_store_id !== undefined) {
    refuse('MEMORY_STORE_NOT_FOUND', 'write_memory_store_id', [config.write_memory_store_id]);
  }
  const reserved = Object.keys(config.tags ?? {}).find((key) => key.startsWith('system.'));
  if (reserved !== undefined) {
    throw invalidInput('VALIDATION_FAILED', `knowledge_config.tags.${reserved}`, 'is a reserved key');
  }
}

function refuse(code: 'DOCUMENT_NOT_FOUND' | 'MEMORY_STORE_NOT_FOUND', field: string, ids: string[] = []): void {
  if (ids.length === 0) return;
  const path = `knowledge_config.${field}`;
  throw new ApiError(code, `${path} names nothing of this project.`, {
    details: [{ path, message: 'names nothing of this project' }],
  });
}
