import { z } from 'zod';
import { principalOf, projectRole } from '../core/access';
import { idOf } from '../core/ids';
import { route } from '../core/route';
import type { GenerationRow } from './models';
import { presentGeneration } from './present';
import { purgeGeneration, updateMetadata } from './purge';
import { pendingCalls } from './rows';
import { GenerationOut, GenerationUpdate } from './schemas';

const GENERATION = '/v1/projects/:project_id/generations/:generation_id';
const generationParams = z.object({ generation_id: idOf('generation') });

async function recordOf(row: GenerationRow): Promise<z.output<typeof GenerationOut>> {
  const pending = row.status === 'requires_action' ? await pendingCalls([row.id]) : new Map<string, never>();
  return presentGeneration(row, pending.get(row.id) ?? []);
}

/** What a caller may do to the content of a run that is over, and to its own notes on it. */
export const contentRoutes = [
  route({
    method: 'patch',
    path: GENERATION,
    id: 'updateGeneration',
    summary: 'Merge entries into the metadata of a run',
    needs: projectRole('member'),
    action: 'generations:UpdateGeneration',
    inputCode: 'VALIDATION_FAILED',
    params: generationParams,
    body: GenerationUpdate,
    answers: { 200: GenerationOut },
    fails: ['GENERATION_CONTENT_UNAVAILABLE'],
    handle: async ({ project, params, body }) => ({
      status: 200,
      body: await recordOf(await updateMetadata(project.id, params.generation_id, body.metadata)),
    }),
  }),
  route({
    method: 'delete',
    path: `${GENERATION}/content`,
    id: 'purgeGeneration',
    summary: 'Remove the content of a run for good',
    needs: projectRole('member'),
    action: 'generations:PurgeGeneration',
    inputCode: 'VALIDATION_FAILED',
    params: generationParams,
    answers: { 200: GenerationOut },
    fails: ['GENERATION_IN_PROGRESS'],
    handle: async ({ project, caller, params }) => ({
      status: 200,
      body: await recordOf(await purgeGeneration(project.id, params.generation_id, principalOf(caller))),
    }),
  }),
];
