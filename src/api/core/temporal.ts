import {
  Client,
  Connection,
  ServiceError,
  WithStartWorkflowOperation,
  WorkflowExecutionAlreadyStartedError,
  WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  isGrpcServiceError,
} from '@temporalio/client';
import type { WorkflowStartOptions } from '@temporalio/client';
import { ApplicationFailure, SearchAttributeType, defineSearchAttributeKey } from '@temporalio/common';
import type { SearchAttributePair } from '@temporalio/common';
import { loadClientConnectConfig } from '@temporalio/envconfig';
import { clock } from './clock';
import { config } from './config';
import { deadline } from './deadline';
import { ApiError, catalog, unavailable } from './errors';
import type { ErrorCode } from './errors';
import { endWithConnection, tryAgain } from './engine-calls';
import { clientInterceptors } from './tracing';

export const queues = { platform: 'platform', calls: 'calls', deliveries: 'deliveries' } as const;

/** The four attributes by which an operator finds a run; stored in the clear, so ids and kinds only. */
export const searchAttributeKeys = {
  projectId: defineSearchAttributeKey('ProjectId', SearchAttributeType.KEYWORD),
  resourceType: defineSearchAttributeKey('ResourceType', SearchAttributeType.KEYWORD),
  resourceId: defineSearchAttributeKey('ResourceId', SearchAttributeType.KEYWORD),
  agentId: defineSearchAttributeKey('AgentId', SearchAttributeType.KEYWORD),
} as const;

/** How a run is labelled in the engine. */
export interface RunLabels {
  resourceType: string;
  resourceId: string;
  projectId?: string;
  agentId?: string;
}

/** Why a run was started and by whom: ids only. */
export interface RunMemo {
  requestId?: string | undefined;
  principalId?: string | null;
  trigger: string;
}

export interface RunInput {
  /** The workflow's exported name. */
  type: string;
  /** The id of the resource that it moves, or `<verb>/<id>`. */
  id: string;
  args: unknown[];
  labels: RunLabels;
  memo: RunMemo;
  /** Repeating runs and repairs may use the id of a run that is closed. */
  mayRepeat?: boolean;
  startDelayMs?: number;
}

/** Shared by server and worker: the engine's address, TLS and namespace, by the SDK's own variables. */
export function engineConnection(): { options: { address: string; tls?: object | boolean | null }; namespace: string } {
  const { connectionOptions, namespace } = loadClientConnectConfig();
  return {
    options: { ...connectionOptions, address: config().TEMPORAL_ADDRESS },
    // Set to nothing is as good as not set, as with all settings; the SDK takes it for a namespace without a name.
    namespace: namespace === undefined || namespace === '' ? config().TEMPORAL_NAMESPACE : namespace,
  };
}

let connection: Connection | undefined;
let shared: Client | undefined;

/** The engine's client of this process; connects at the first call that needs it. */
export function engine(): Client {
  if (shared === undefined) {
    const { options, namespace } = engineConnection();
    connection = Connection.lazy({
      ...options,
      connectTimeout: 5_000,
      interceptors: [tryAgain, endWithConnection],
    });
    const workflow = clientInterceptors();
    shared = new Client({ connection, namespace, ...(workflow.length === 0 ? {} : { interceptors: { workflow } }) });
  }
  return shared;
}

/** The engine's own services beside its client, for setting it up. */
export function engineServices(): Pick<Connection, 'workflowService' | 'operatorService'> {
  engine();
  if (connection === undefined) throw new Error('the engine client has no connection');
  return connection;
}

/** Ends the connection to the engine. */
export async function closeEngine(): Promise<void> {
  const open = connection;
  connection = undefined;
  shared = undefined;
  await open?.close();
}

/** The attributes of a run, as the engine's client takes them. */
export function searchAttributesOf(labels: RunLabels): SearchAttributePair[] {
  const pairs: SearchAttributePair[] = [
    { key: searchAttributeKeys.resourceType, value: labels.resourceType },
    { key: searchAttributeKeys.resourceId, value: labels.resourceId },
  ];
  if (labels.projectId !== undefined) pairs.push({ key: searchAttributeKeys.projectId, value: labels.projectId });
  if (labels.agentId !== undefined) pairs.push({ key: searchAttributeKeys.agentId, value: labels.agentId });
  return pairs;
}

function startOptions(run: RunInput): WorkflowStartOptions & { taskQueue: string; workflowId: string } {
  return {
    taskQueue: queues.platform,
    workflowId: run.id,
    args: run.args,
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowIdReusePolicy: run.mayRepeat === true ? 'ALLOW_DUPLICATE' : 'REJECT_DUPLICATE',
    typedSearchAttributes: searchAttributesOf(run.labels),
    memo: Object.fromEntries(Object.entries(run.memo).filter(([, value]) => value !== undefined && value !== null)),
    staticSummary: `${run.labels.resourceType} ${run.labels.resourceId}`,
    ...(run.startDelayMs === undefined ? {} : { startDelay: run.startDelayMs }),
  };
}

/** How long a start goes on trying: the sweep makes up for one that fails. */
const START_TIMEOUT_MS = 5_000;
/** How long a call does that tells a run something. */
const TELL_TIMEOUT_MS = 15_000;
/** By how much the deadline of a call comes after the end of its wait, so that it is the wait that ends. */
const MARGIN_MS = 50;

/** Runs calls to the engine until a moment; one that waits for its next try then is given up. */
const within = <T>(client: Client, timeoutMs: number, call: () => Promise<T>): Promise<T> =>
  client.withDeadline(clock.ms() + timeoutMs, call);

/** `started` is also the answer for a run that is open already; `closed` = the id was used by a run that has ended. */
export type StartOutcome = 'started' | 'closed';

/**
 * Starts a run whose row is committed. Safe to repeat: a second start of an open run changes nothing.
 * @throws whatever kept the engine from answering; the row is accepted all the same, and the sweep starts it
 */
export async function startRun(run: RunInput): Promise<StartOutcome> {
  const client = engine();
  try {
    await within(client, START_TIMEOUT_MS, () => client.workflow.start(run.type, startOptions(run)));
    return 'started';
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return 'closed';
    throw error;
  }
}

/**
 * Sends a signal to a run of a committed row, and starts the run where none is open. Safe to repeat: the run looks anew.
 * @throws whatever kept the engine from answering; the sweep starts it
 */
export async function signalWithStart(run: RunInput, signal: string): Promise<void> {
  const client = engine();
  await within(client, START_TIMEOUT_MS, () =>
    client.workflow.signalWithStart(run.type, { ...startOptions(run), signal, signalArgs: [] }),
  );
}

/** Ids of the open runs of a project, as the engine's list has them: it lags behind a little. At most `limit`. */
export async function openRunsOf(projectId: string, limit: number): Promise<string[]> {
  const ids: string[] = [];
  const query = `ProjectId = "${projectId}" AND ExecutionStatus = "Running"`;
  for await (const { workflowId } of engine().workflow.list({ query, pageSize: limit })) {
    if (ids.push(workflowId) >= limit) break;
  }
  return ids;
}

/** A wait for what a run says. */
export interface Wait {
  timeoutMs: number;
  cut?: AbortSignal | undefined;
  /** Whether an engine that is away is asked until the wait ends; else a few times, and then the wait fails. */
  outlastsOutages: boolean;
}

/** What became of an update: answered, or why not. */
export type UpdateOutcome = 'answered' | 'no-run' | 'timeout';

/**
 * Starts a run and waits for an update of it in one call; the update answers when the run rests.
 * `no-run` = the run has ended already; `timeout` = the wait was cut, by its time or its signal, and the run goes on.
 * @throws ApiError of the code with which the workflow refused, or what kept the engine from answering
 */
export async function updateWithStart(
  run: RunInput,
  update: string,
  args: unknown[],
  wait: Wait,
): Promise<UpdateOutcome> {
  const client = engine();
  const startWorkflowOperation = new WithStartWorkflowOperation(run.type, {
    ...startOptions(run),
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
  startWorkflowOperation.workflowHandle().catch(() => undefined); // The same error also rejects the update.
  return outcomeOf(client, wait, () =>
    client.workflow.executeUpdateWithStart(update, { args, startWorkflowOperation }),
  );
}

/**
 * Sends an update to an open run and waits for its answer.
 * @throws ApiError of the code with which the workflow refused, or what kept the engine from answering
 */
export async function updateRun(
  id: string,
  update: { name: string; args: [unknown, ...unknown[]]; updateId?: string },
  timeoutMs: number,
): Promise<UpdateOutcome> {
  const client = engine();
  const { name, ...options } = update;
  return outcomeOf(client, { timeoutMs, outlastsOutages: true }, () =>
    client.workflow.getHandle(id).executeUpdate<unknown, [unknown, ...unknown[]]>(name, options),
  );
}

/**
 * Runs a call that waits: true when it ended, false when its time was over or it was cut, be that between two tries.
 * @throws what kept the engine from answering
 */
async function waited(client: Client, wait: Wait, call: () => Promise<unknown>): Promise<boolean> {
  if (wait.cut?.aborted === true) return false;
  const { signal, end } = deadline(wait.timeoutMs, wait.cut);
  const cut = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      reject(signal.reason as Error);
    });
  });
  const cuttable = (): Promise<unknown> => client.withAbortSignal(signal, call);
  const outlasting = (): Promise<unknown> => within(client, wait.timeoutMs + MARGIN_MS, cuttable);
  try {
    await Promise.race([cut, wait.outlastsOutages ? outlasting() : cuttable()]);
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  } finally {
    end();
  }
}

async function outcomeOf(client: Client, wait: Wait, call: () => Promise<unknown>): Promise<UpdateOutcome> {
  try {
    return (await waited(client, wait, call)) ? 'answered' : 'timeout';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || error instanceof WorkflowExecutionAlreadyStartedError)
      return 'no-run';
    if (error instanceof WorkflowUpdateFailedError) return refusedOrEnded(error);
    throw engineError(error);
  }
}

/**
 * An engine that cannot be reached, or is too busy, is a 503 where the answer needs it: a few updates too many on one run
 * (RESOURCE_EXHAUSTED) count as that too.
 */
const engineError = (error: unknown): unknown =>
  error instanceof ServiceError || isGrpcServiceError(error) || isUnconnected(error) ? unavailable() : error;

/** What a connection that was never made throws is a plain error with this name. */
const isUnconnected = (error: unknown): boolean =>
  error instanceof Error && /failed to connect|channel/i.test(error.message);

/** An update fails by the workflow's refusal, or because the run ended before it was answered. */
function refusedOrEnded(error: WorkflowUpdateFailedError): UpdateOutcome {
  const { cause } = error;
  if (cause instanceof ApplicationFailure && cause.type != null && cause.type in catalog) {
    throw new ApiError(cause.type as ErrorCode, cause.type);
  }
  return 'no-run';
}

/** Sends a signal; false when there is no such open run. */
export async function signalRun(id: string, signal: string, args: unknown[] = []): Promise<boolean> {
  const client = engine();
  try {
    await within(client, TELL_TIMEOUT_MS, () => client.workflow.getHandle(id).signal(signal, ...args));
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw engineError(error);
  }
}

/** Asks a run to cancel itself; false when there is no such open run. */
export async function cancelRun(id: string): Promise<boolean> {
  const client = engine();
  try {
    await within(client, TELL_TIMEOUT_MS, () => client.workflow.getHandle(id).cancel());
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw engineError(error);
  }
}

/** Waits until a run has ended, however it ended; false when it has not within `timeoutMs`. */
export async function runEnded(id: string, timeoutMs: number): Promise<boolean> {
  const client = engine();
  try {
    return await waited(client, { timeoutMs, outlastsOutages: true }, () => client.workflow.getHandle(id).result());
  } catch (error) {
    if (error instanceof WorkflowFailedError || error instanceof WorkflowNotFoundError) return true;
    throw engineError(error);
  }
}
