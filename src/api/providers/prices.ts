import { clock } from '../core/clock';
import { inTransaction, query, queryOne } from '../core/db';
import type { Tx } from '../core/db';
import { ApiError, notFound } from '../core/errors';
import type { InputProblem } from '../core/errors';
import { newId } from '../core/ids';
import { findProvider, getAiProvider } from './service';

/** What is counted of a model's tokens; the table of usage events. */
export const tokenComponents = [
  'input_tokens',
  'cached_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
] as const;
export type TokenComponent = (typeof tokenComponents)[number];

/** Answers stay bounded however often prices are set. */
export const PRICES_LISTED_MAX = 1_000;

/** A price as its row has it; `unitPrice` is US dollars a unit, decimal text. */
export interface PriceRow {
  id: string;
  projectId: string | null;
  aiProviderId: string | null;
  meterType: string;
  provider: string;
  model: string;
  component: TokenComponent;
  unit: string;
  unitPrice: string;
  effectiveFrom: Date;
  createdAt: Date;
}

export interface PriceInput {
  model: string;
  component: TokenComponent;
  /** US dollars a token, decimal text. */
  unitPrice: string;
  /** Null = now. */
  effectiveFrom: Date | null;
}

const COLUMNS = `id, project_id as "projectId", ai_provider_id as "aiProviderId", meter_type as "meterType", provider, model,
  component, unit, unit_price::text as "unitPrice", effective_from as "effectiveFrom", created_at as "createdAt"`;

/** The prices set on a provider, those that count last first, at most `PRICES_LISTED_MAX`. @throws not_found */
export async function listProviderPrices(projectId: string, aiProviderId: string): Promise<PriceRow[]> {
  await getAiProvider(projectId, aiProviderId);
  return pricesOf(projectId, aiProviderId);
}

const pricesOf = (projectId: string, aiProviderId: string, tx?: Tx): Promise<PriceRow[]> =>
  query<PriceRow>(
    `select ${COLUMNS} from prices where project_id = $1 and ai_provider_id = $2
     order by effective_from desc, created_at desc, id desc limit ${String(PRICES_LISTED_MAX)}`,
    [projectId, aiProviderId],
    tx,
  );

/**
 * Adds prices to a provider, all or none: rows that are there are never changed, the latest that has begun counts. Not
 * repeatable with a time given: the same key and time stands once.
 * @throws not_found, VALIDATION_FAILED naming the row
 * Spec: Usage, Prices; Providers, PUT …/prices.
 */
export async function addProviderPrices(
  projectId: string,
  aiProviderId: string,
  prices: PriceInput[],
): Promise<PriceRow[]> {
  const now = clock.now();
  assertNoneTwice(prices, now);
  assertNonePast(prices, now);
  return inTransaction(async (tx) => {
    const provider = await findProvider(projectId, aiProviderId, tx);
    if (provider === null) throw notFound();
    const written = await insertPrices({ projectId, aiProviderId, provider: provider.provider, now }, prices, tx);
    const missing = prices.findIndex((price) => !written.has(keyOf(price, now)));
    if (missing >= 0) throw refused([{ path: `prices.${String(missing)}`, message: 'is set for that time already' }]);
    return pricesOf(projectId, aiProviderId, tx);
  });
}

/** Inserts what no row holds yet; answers the keys of what it wrote. */
async function insertPrices(
  on: { projectId: string; aiProviderId: string; provider: string; now: Date },
  prices: PriceInput[],
  tx: Tx,
): Promise<Set<string>> {
  const rows = prices.map((price) => ({
    id: newId('price'),
    model: price.model,
    component: price.component,
    unit_price: price.unitPrice,
    effective_from: timeOf(price, on.now).toISOString(),
  }));
  const written = await query<{ model: string; component: TokenComponent; effectiveFrom: Date }>(
    `insert into prices (id, project_id, ai_provider_id, meter_type, provider, model, component, unit, unit_price,
                         effective_from, created_at)
     select given.id, $1, $2, 'llm_tokens', $3, given.model, given.component, 'token', given.unit_price,
            given.effective_from, $4
     from json_to_recordset($5) as given (id text, model text, component text, unit_price numeric, effective_from timestamptz)
     on conflict do nothing returning model, component, effective_from as "effectiveFrom"`,
    [on.projectId, on.aiProviderId, on.provider, on.now, JSON.stringify(rows)],
    tx,
  );
  return new Set(written.map((row) => keyOf(row, on.now)));
}

const timeOf = ({ effectiveFrom }: Pick<PriceInput, 'effectiveFrom'>, now: Date): Date => effectiveFrom ?? now;

const keyOf = (price: Pick<PriceInput, 'model' | 'component' | 'effectiveFrom'>, now: Date): string =>
  JSON.stringify([price.model, price.component, timeOf(price, now).getTime()]);

function assertNoneTwice(prices: PriceInput[], now: Date): void {
  const seen = new Set<string>();
  const problems = prices.flatMap((price, index): InputProblem[] => {
    const key = keyOf(price, now);
    if (!seen.has(key)) {
      seen.add(key);
      return [];
    }
    return [{ path: `prices.${String(index)}`, message: 'stands twice: the same model, component and time' }];
  });
  if (problems.length > 0) throw refused(problems);
}

function assertNonePast(prices: PriceInput[], now: Date): void {
  const problems = prices.flatMap(({ effectiveFrom }, index): InputProblem[] =>
    effectiveFrom === null || effectiveFrom >= now
      ? []
      : [{ path: `prices.${String(index)}.effective_from`, message: 'must not be in the past' }],
  );
  if (problems.length > 0) throw refused(problems);
}

const refused = (problems: InputProblem[]): ApiError =>
  new ApiError('VALIDATION_FAILED', 'The prices cannot be set.', { details: problems });

export interface StepTokens {
  /** Not served from the vendor's cache, and not written to it. */
  input: number;
  cached: number;
  cacheWrite: number;
  output: number;
}

/** A step whose cost is asked, each as SQL: `$n`, or a column in reach. */
interface PricedStep {
  projectId: string;
  aiProviderId: string;
  /** Slug of the vendor that served. */
  vendor: string;
  model: string;
  /** When the tokens were used. */
  at: string;
  tokens: Record<keyof StepTokens, string>;
}

/**
 * What a step costs in US dollars, as a numeric subquery; null when none of its components has a price. Per component the
 * first of provider, project and platform that has a price in effect then counts, of it the latest. Cached and cache-written
 * tokens without a price use that of input. Computed by the database: no sum of money is ever a float.
 * Spec: Usage, Prices, rules 3 and 4.
 */
export const stepCostSql = ({ projectId, aiProviderId, vendor, model, at, tokens }: PricedStep): string => `(
  with applying as (
    select distinct on (component) component, unit_price from prices
    where meter_type = 'llm_tokens' and unit = 'token' and model = ${model} and effective_from <= ${at}
      and ((project_id = ${projectId} and ai_provider_id = ${aiProviderId})
        or (project_id = ${projectId} and ai_provider_id is null and provider = ${vendor})
        or (project_id is null and ai_provider_id is null and provider = ${vendor}))
    order by component, ai_provider_id is null, project_id is null, effective_from desc),
  priced as (
    select max(unit_price) filter (where component = 'input_tokens') as input,
           max(unit_price) filter (where component = 'cached_tokens') as cached,
           max(unit_price) filter (where component = 'cache_write_tokens') as cache_write,
           max(unit_price) filter (where component = 'output_tokens') as output
    from applying)
  select case when coalesce(input, cached, cache_write, output) is not null then
    least(coalesce(input, 0) * ${tokens.input}::bigint + coalesce(cached, input, 0) * ${tokens.cached}::bigint
          + coalesce(cache_write, input, 0) * ${tokens.cacheWrite}::bigint + coalesce(output, 0) * ${tokens.output}::bigint,
          99999999.999999999999)::numeric(20, 12) end
  from priced)`;

/**
 * Whether what a provider's model uses would cost something that is known now: one of the components that a step is billed by
 * has a price in effect. Spec: Usage, Prices, `require_priced_model`.
 */
export async function isPriced(projectId: string, aiProviderId: string, model: string): Promise<boolean> {
  const found = await queryOne(
    `select 1 from prices r join ai_providers p on p.project_id = $1 and p.id = $2
     where r.meter_type = 'llm_tokens' and r.unit = 'token' and r.model = $3 and r.effective_from <= $4
       and r.component in ('input_tokens', 'cached_tokens', 'cache_write_tokens', 'output_tokens')
       and ((r.project_id = $1 and r.ai_provider_id = $2)
         or (r.ai_provider_id is null and r.provider = p.provider and (r.project_id = $1 or r.project_id is null)))
     limit 1`,
    [projectId, aiProviderId, model, clock.now()],
  );
  return found !== null;
}

/** A count as usage knows it: what is no number, or below 0, is 0. */
export const countOf = (count: number): number =>
  Number.isFinite(count) && count > 0 ? Math.min(Math.trunc(count), Number.MAX_SAFE_INTEGER) : 0;
