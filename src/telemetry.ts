import { DefaultLogger } from '@temporalio/worker';
import type { RuntimeOptions } from '@temporalio/worker';
import { config } from './api/core/config';
import { log } from './api/core/log';
import { startMetrics } from './telemetry-metrics';
import { startTraces, stopTraces } from './telemetry-traces';

export interface Telemetry {
  /** Where `/metrics` is served. */
  metricsPort: number;
  /** For the end of the process, after everything else has ended. */
  stop: () => Promise<void>;
}

/**
 * Begins to measure a process, and to trace it where a receiver is named: before anything else of it starts.
 * @throws when the port of the metrics is taken, but not in local mode, where any is as good
 */
export async function startTelemetry(role: 'api' | 'worker'): Promise<Telemetry> {
  const { METRICS_HOST, METRICS_PORT, localMode, tracing } = config();
  const metrics = await startMetrics({ host: METRICS_HOST, port: METRICS_PORT, fallback: localMode });
  if (tracing) startTraces(`agent-platform-${role}`);
  log.info({ msg: 'telemetry ready', metrics_port: metrics.port, tracing });
  return {
    metricsPort: metrics.port,
    stop: async () => {
      await Promise.all([metrics.close(), stopTraces()]);
    },
  };
}

/** How the engine's core runs in this process: the order of ending is ours, and its texts are not logged. */
export function runtimeOptions(): RuntimeOptions {
  const { ENGINE_METRICS_ADDRESS: bindAddress } = config();
  return {
    shutdownSignals: [],
    logger: new DefaultLogger('WARN', ({ level }) => log.warn({ msg: 'engine worker', level })),
    ...(bindAddress === undefined ? {} : { telemetryOptions: { metrics: { prometheus: { bindAddress } } } }),
  };
}
