import { inTransaction, query } from '../../src/api/core/db';
import { newId } from '../../src/api/core/ids';
import type { Tx } from '../../src/api/core/db';
import { countOf, stepCostSql } from '../../src/api/providers/prices';
import type { StepTokens } from '../../src/api/providers/prices';
import { useService } from '../support/app';
import { created } from '../support/builders';
import type { ApiClient, Reply } from '../support/client';

const service = useService();

let api: ApiClient;
let projectId: string;
let providerId: string;
let prices: string;

beforeEach(async () => {
  const owner = await service.signedIn();
  ({ id: projectId } = await service.project(owner));
  api = service.client(owner.token);
  const base = `/v1/projects/${projectId}/ai-providers`;
  providerId = created(await api.post(base, { name: 'p', provider: 'openai', default_model: 'm' })).id;
  prices = `${base}/${providerId}/prices`;
});

const price = { model: 'm', component: 'input_tokens', unit: 'token', unit_price: 0.000001 };
const put = (...rows: object[]): Promise<Reply> => api.put(prices, { prices: rows });
const refused = ({ status, body }: Reply) => [status, body.error.code, body.error.details?.[0]?.path];
const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString();
const COST = `select ${stepCostSql({
  projectId: '$1',
  aiProviderId: '$2',
  vendor: '$3',
  model: '$4',
  at: '$5',
  tokens: { input: '$6', cached: '$7', cacheWrite: '$8', output: '$9' },
})}::text as cost`;
const cost = async (
  tokens: Partial<StepTokens>,
  given: Partial<Record<'model' | 'provider' | 'projectId' | 'aiProviderId', string>> & { at?: Date } = {},
  tx?: Tx,
) => {
  const step = {
    projectId,
    aiProviderId: providerId,
    provider: 'openai',
    model: 'm',
    at: new Date(Date.now() + 1_000),
    ...given,
  };
  const used = { input: 0, cached: 0, cacheWrite: 0, output: 0, ...tokens };
  const counts = [used.input, used.cached, used.cacheWrite, used.output].map(countOf);
  const of = [step.projectId, step.aiProviderId, step.provider, step.model, step.at];
  const rows = await query<{ cost: string | null }>(COST, [...of, ...counts], tx);
  return rows[0]?.cost ?? null;
};
/** A row of another scope than a provider's. */
const rowOf = (given: { project: string | null; provider?: string; unitPrice: string; from?: Date }) =>
  query(
    `insert into prices (id, project_id, meter_type, provider, model, component, unit, unit_price, effective_from, created_at)
     values ($1, $2, 'llm_tokens', $3, 'm', 'input_tokens', 'token', $4, $5, now()) returning id`,
    [newId('price'), given.project, given.provider ?? 'openai', given.unitPrice, given.from ?? new Date(0)],
  );
afterEach(() => query('delete from prices where project_id is null returning id'));

test('a price is stored with every field, from now on', async () => {
  const before = Date.now();
  const answer = await put(price);
  expect([answer.status, answer.body]).toEqual([
    200,
    {
      prices: [
        {
          id: expect.stringMatching(/^price_[0-9A-Za-z]{16}$/),
          ai_provider_id: providerId,
          project_id: projectId,
          meter_type: 'llm_tokens',
          provider: 'openai',
          model: 'm',
          component: 'input_tokens',
          unit: 'token',
          unit_price: 0.000001,
          effective_from: expect.any(String),
          created_at: expect.any(String),
        },
      ],
    },
  ]);
  expect(Date.parse(answer.body.prices[0].effective_from as string)).toBeGreaterThanOrEqual(before);
  expect((await api.get(prices)).body).toEqual(answer.body);
});

test('a later price is a further row, the latest first; what is there stays as it is', async () => {
  const first = (await put(price)).body.prices[0];
  const later = inAnHour();
  const { prices: both } = (await put({ ...price, unit_price: 2, effective_from: later })).body;
  expect(both).toEqual([expect.objectContaining({ unit_price: 2, effective_from: later }), first]);
});

test('times are taken with any offset', async () => {
  const answer = await put({ ...price, effective_from: '2999-01-01T02:00:00+02:00' });
  expect(answer.body.prices[0].effective_from).toBe('2999-01-01T00:00:00.000Z');
});

test.each([
  [{ prices: [] }, 'prices'],
  [{ prices: Array.from({ length: 501 }, (_, index) => ({ ...price, model: String(index) })) }, 'prices'],
  [{}, 'prices'],
  [{ prices: [{ ...price, component: 'call' }] }, 'prices.0.component'],
  [{ prices: [{ ...price, unit: 'call' }] }, 'prices.0.unit'],
  [{ prices: [{ ...price, unit_price: -1 }] }, 'prices.0.unit_price'],
  [{ prices: [{ ...price, unit_price: '1' }] }, 'prices.0.unit_price'],
  [{ prices: [{ ...price, unit_price: 1e-13 }] }, 'prices.0.unit_price'],
  [{ prices: [{ ...price, unit_price: 100_000_000 }] }, 'prices.0.unit_price'],
  [{ prices: [{ ...price, model: '' }] }, 'prices.0.model'],
  [{ prices: [{ ...price, effective_from: 'soon' }] }, 'prices.0.effective_from'],
  [{ prices: [{ ...price, provider: 'openai' }] }, 'prices.0.provider'],
  [{ prices: [price, { ...price, model: 'n', effective_from: '2020-01-01T00:00:00Z' }] }, 'prices.1.effective_from'],
  [{ prices: [price, { ...price, unit_price: 2 }] }, 'prices.1'],
])('a bad price is refused naming the row, and none is written %#', async (body, path) => {
  expect(refused(await api.put(prices, body))).toEqual([400, 'VALIDATION_FAILED', path]);
  expect((await api.get(prices)).body).toEqual({ prices: [] });
});

test('500 prices are taken', async () => {
  const rows = Array.from({ length: 500 }, (_, index) => ({ ...price, model: String(index) }));
  expect((await put(...rows)).body.prices).toHaveLength(500);
});

test('the same key and time twice is refused, also over two requests and at once', async () => {
  const row = { ...price, effective_from: inAnHour() };
  const answers = await Promise.all([put(row), put(row), put(row)]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400]);
  expect(refused(await put({ ...price, model: 'other' }, row))).toEqual([400, 'VALIDATION_FAILED', 'prices.1']);
  expect((await api.get(prices)).body.prices).toHaveLength(1);
});

test('an unknown provider, or one of another project, has no prices', async () => {
  const other = await service.signedIn();
  const { id } = await service.project(other);
  const elsewhere = `/v1/projects/${id}/ai-providers/${providerId}/prices`;
  const stranger = service.client(other.token);
  expect([(await stranger.get(elsewhere)).status, (await stranger.put(elsewhere, { prices: [price] })).status]).toEqual(
    [404, 404],
  );
});

describe('the cost of a step', () => {
  const priced = () => put(price, { ...price, component: 'output_tokens', unit_price: 0.000002 });

  test('is the sum over its components, in decimals', async () => {
    await priced();
    expect(await cost({ input: 100, output: 50 })).toBe('0.000200000000');
    expect(await inTransaction((tx) => cost({}, { at: new Date() }, tx))).toBe('0.000000000000');
  });

  test('takes the input price for cached and cache-written tokens without one of their own', async () => {
    await priced();
    expect(await cost({ input: 1, cached: 10, cacheWrite: 100 })).toBe('0.000111000000');
    await put(
      { ...price, component: 'cached_tokens', unit_price: 0 },
      {
        ...price,
        component: 'cache_write_tokens',
        unit_price: 0.00001,
      },
    );
    expect(await cost({ input: 1, cached: 10, cacheWrite: 100 })).toBe('0.001001000000');
  });

  test('is exact where floats are not', async () => {
    await put({ ...price, unit_price: 0.1 }, { ...price, component: 'output_tokens', unit_price: 0.2 });
    expect(await cost({ input: 1, output: 1 })).toBe('0.300000000000');
    await put({ ...price, model: 'tiny', unit_price: 1e-12 });
    expect(await cost({ input: 3 }, { model: 'tiny' })).toBe('0.000000000003');
  });

  test('is null without a price of that model, and counts what is priced', async () => {
    expect(await cost({ input: 5 })).toBeNull();
    await put({ ...price, component: 'output_tokens', unit_price: 1 });
    expect(await cost({ input: 5, output: 2 })).toBe('2.000000000000');
    expect(await cost({ input: 5, output: 2 }, { model: 'other' })).toBeNull();
  });

  test('is told by the price in effect then', async () => {
    await put(price, { ...price, unit_price: 1, effective_from: inAnHour() });
    expect(await cost({ input: 1 })).toBe('0.000001000000');
    expect(await cost({ input: 1 }, { at: new Date(Date.now() + 7_200_000) })).toBe('1.000000000000');
    expect(await cost({ input: 1 }, { at: new Date(0) })).toBeNull();
  });

  test('is told by the provider’s price, then the project’s, then the platform’s, each for its vendor', async () => {
    await rowOf({ project: null, unitPrice: '3' });
    await rowOf({ project: null, provider: 'groq', unitPrice: '9' });
    expect(await cost({ input: 1 })).toBe('3.000000000000');
    await rowOf({ project: projectId, unitPrice: '2' });
    expect(await cost({ input: 1 })).toBe('2.000000000000');
    await put({ ...price, unit_price: 1 });
    expect(await cost({ input: 1 })).toBe('1.000000000000');
    expect(await cost({ input: 1 }, { aiProviderId: newId('aiProvider') })).toBe('2.000000000000');
    expect(await cost({ input: 1 }, { projectId: newId('project') })).toBe('3.000000000000');
  });

  test('counts what is no number, or below 0, as 0, and fits its column', async () => {
    await put({ ...price, unit_price: 99_999_999 });
    expect(await cost({ input: -5, output: Number.NaN })).toBe('0.000000000000');
    expect(await cost({ input: Number.POSITIVE_INFINITY })).toBe('0.000000000000');
    expect(await cost({ input: 1e15 })).toBe('99999999.999999999999');
  });
});
