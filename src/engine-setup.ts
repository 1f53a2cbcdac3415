import { engine, engineServices, searchAttributeKeys } from './api/core/temporal';
import { errorFacts, log } from './api/core/log';

/** Update-with-start came with this version. */
const OLDEST_SERVER = [1, 28] as const;
const RETENTION_SECONDS = 30 * 86_400;
const KEYWORD = 2;

type Services = ReturnType<typeof engineServices>;

/** The engine is too old to run the service. */
export class EngineTooOld extends Error {}

/** Whether a server's version, `1.28.0`, is new enough. */
export function isNewEnough(version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  return major > OLDEST_SERVER[0] || (major === OLDEST_SERVER[0] && minor >= OLDEST_SERVER[1]);
}

/**
 * Makes an engine fit for the service, at worker start: its version is checked, the search attributes exist, and closed
 * runs are kept for 30 days. Safe to repeat. What the engine does not let us set is logged for its operator.
 * @throws EngineTooOld
 */
export async function ensureEngine(): Promise<void> {
  const services = engineServices();
  const { namespace } = engine().options;
  const info = await services.workflowService.getSystemInfo({});
  if (!isNewEnough(info.serverVersion))
    throw new EngineTooOld(`The engine is ${info.serverVersion}; 1.28 or newer is needed`);
  await permitted('search attributes', () => ensureSearchAttributes(services, namespace));
  await permitted('retention', () => ensureRetention(services, namespace));
}

async function ensureSearchAttributes(services: Services, namespace: string): Promise<void> {
  const { customAttributes } = await services.operatorService.listSearchAttributes({ namespace });
  const missing = Object.values(searchAttributeKeys)
    .map(({ name }) => name)
    .filter((name) => !(name in customAttributes));
  if (missing.length === 0) return;
  const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]));
  await services.operatorService.addSearchAttributes({ namespace, searchAttributes });
}

async function ensureRetention(services: Services, namespace: string): Promise<void> {
  const { config } = await services.workflowService.describeNamespace({ namespace });
  const kept = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0);
  if (kept >= RETENTION_SECONDS) return;
  await services.workflowService.updateNamespace({
    namespace,
    config: { workflowExecutionRetentionTtl: { seconds: RETENTION_SECONDS as never } },
  });
}

/** A cloud's namespace is set up by its owner: what we may not set does not keep the worker from starting. */
async function permitted(what: string, set: () => Promise<void>): Promise<void> {
  try {
    await set();
  } catch (error) {
    log.warn({ msg: 'the engine did not let us set its namespace up', what, ...errorFacts(error) });
  }
}
