import { noCredential } from '../core/access';
import { query } from '../core/db';
import { config } from '../core/config';
import { isDraining } from '../core/draining';
import { unavailable } from '../core/errors';
import { openApiDocument } from '../core/openapi';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { ReferencePage } from './reference';
import { ContractDocument, Health, ReferenceAsset } from './schemas';

/** Health, the contract document, which lists the routes it is given, itself included, and its browsable reference. */
export function operationsRoutes(others: () => Route[]): Route[] {
  let document: ReturnType<typeof openApiDocument> | undefined;
  const reference = new ReferencePage(() => config().PUBLIC_BASE_URL);
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
    route({
      method: 'get',
      path: '/docs',
      id: 'getReference',
      summary: 'The contract document as a page to browse',
      needs: noCredential,
      action: 'operations:GetReference',
      inputCode: 'bad_request',
      answers: { 200: null },
      media: 'text/html',
      quiet: true,
      handle: () => reference.page(),
    }),
    route({
      method: 'get',
      path: '/docs/:asset',
      id: 'getReferenceAsset',
      summary: 'A file of the page',
      needs: noCredential,
      action: 'operations:GetReferenceAsset',
      inputCode: 'bad_request',
      params: ReferenceAsset,
      answers: { 200: null },
      unlisted: true,
      quiet: true,
      handle: ({ params }) => reference.asset(params.asset),
    }),
  ];
}
