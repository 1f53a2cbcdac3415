import { RAISED_LIMITS } from '../../src/local/raised-limits';

/**
 * Settings of the tests that run the application inside the jest process. Every jest worker has a database and an
 * engine namespace of its own, so that files of different workers do not meet.
 */
const worker = process.env.JEST_WORKER_ID ?? '1';
const admin = process.env.TEST_DATABASE_ADMIN_URL;
const engine = process.env.TEST_TEMPORAL_ADDRESS;

if (admin === undefined || engine === undefined) {
  throw new Error('The engines of the tests are not up: the global setup starts them');
}

const database = new URL(admin);
database.pathname = `/test_${worker}`;

const settings: Record<string, string> = {
  DATABASE_URL: database.toString(),
  DATABASE_POOL_MAX: '10',
  TEMPORAL_ADDRESS: engine,
  TEMPORAL_NAMESPACE: `test-${String(((Number(worker) - 1) % 4) + 1)}`,
  PUBLIC_BASE_URL: 'http://localhost:3000',
  JWT_SECRET: 'a secret of the tests, at least 32 bytes long',
  SECRETS_ENCRYPTION_KEY: '11'.repeat(32),
  TOOL_EGRESS_ALLOWED_HOSTS: '127.0.0.1,localhost',
  WEBHOOK_ALLOW_HTTP: 'true',
  LOG_LEVEL: 'silent',
  CALL_HEARTBEAT_SECONDS: '3',
  SWEEP_INTERVAL_SECONDS: '1',
  // Longer than any run of a test takes on a busy machine: an answer that comes too late is another one.
  GENERATION_WAIT_MAX_SECONDS: '30',
  // Most tests are not about how often one may ask, and what a plan allows.
  ...RAISED_LIMITS,
};

// A test file may set one of these itself before it loads the application.
for (const [name, value] of Object.entries(settings)) process.env[name] ??= value;
