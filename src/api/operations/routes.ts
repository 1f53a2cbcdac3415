import { noCredential } from '../core/access';
import { query } from '../core/db';
import { config } from '../core/config';
import { isDraining } from '../core/draining';
import { unavailable } from '../core/errors';
import { openApiDocument } from '../core/openapi';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { ContractDocument, Health } from './schemas';

/** Health and the contract document; the latter lists the routes it is given, itself included. */
export function operationsRoutes(others: () => Route[]): Route[] {
  let document: ReturnType<typeof openApiDocument> | undefined;
  return [
    route({
      method: 'get',
      path: '/health',
      id: 'getHealth',
      summary: 'Whether the service can answer',
      needs: noCredential,
      action: 'operations:GetHealth',
      inputCode: 'bad_request',
      answers: { 200: Health },
      fails: ['service_unavailable'],
      quiet: true,
      handle: async () => {
        if (isDraining()) throw unavailable('This process is about to end.');
        await query('select 1 as alive');
        return { status: 200, body: { status: 'ok' } };
      },
    }),
    route({
      method: 'get',
      path: '/openapi.json',
      id: 'getContract',
      summary: 'The contract document',
      needs: noCredential,
      action: 'operations:GetContract',
      inputCode: 'bad_request',
      answers: { 200: ContractDocument },
      quiet: true,
      handle: () => ({ status: 200, body: (document ??= openApiDocument(others(), config().PUBLIC_BASE_URL)) }),
    }),
  ];
}
