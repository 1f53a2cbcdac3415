import { z } from 'zod';
import { EgressListError, parseAllowList, parseCidrs } from './egress';

const seconds = (fallback: number, least = 0): z.ZodDefault<z.ZodCoercedNumber> =>
  z.coerce.number().min(least).default(fallback);
const count = (fallback: number, least = 1): z.ZodDefault<z.ZodCoercedNumber> =>
  z.coerce.number().int().min(least).default(fallback);
const flag = (fallback: boolean): z.ZodType<boolean, string | undefined> =>
  z
    .enum(['true', 'false'])
    .optional()
    .transform((text) => (text === undefined ? fallback : text === 'true'));
const list = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((entry) => entry.trim())
      .filter((entry) => entry !== ''),
  );
/** A list of the egress guard as it was given; one that cannot be read stops the start, naming the entry. */
const egressList = (parse: (text: string) => unknown): z.ZodType<string, string | undefined> =>
  z
    .string()
    .default('')
    .superRefine((text, context) => {
      try {
        parse(text);
      } catch (error) {
        if (!(error instanceof EgressListError)) throw error;
        context.addIssue({ code: 'custom', message: error.message });
      }
    });
const key = z.string().regex(/^[0-9a-fA-F]{64}$/, 'must be 32 bytes in hex');

const Settings = z.object({
  HOST: z.string().optional(),
  PORT: z.coerce.number().int().min(0).max(65_535).default(3000),
  METRICS_HOST: z.string().optional(),
  METRICS_PORT: z.coerce.number().int().min(0).max(65_535).default(9464),
  ENGINE_METRICS_ADDRESS: z
    .string()
    .regex(/^\S+:\d+$/, 'must be host:port')
    .optional(),
  // The other variables of OpenTelemetry are read by its own libraries.
  OTEL_SDK_DISABLED: flag(false),
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_SERVICE_NAME: z.string().optional(),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  DATA_DIR: z.string().min(1).default('.data'),
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/ }),
  DATABASE_POOL_MAX: count(20),
  TEMPORAL_ADDRESS: z.string().min(1),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default'),
  TEMPORAL_UI_URL: z.string().optional(),
  PUBLIC_BASE_URL: z.url({ protocol: /^https?$/ }),
  JWT_SECRET: z.string().refine((text) => Buffer.byteLength(text) >= 32, 'must have at least 32 bytes'),
  JWT_SECRETS_PREVIOUS: list,
  SECRETS_ENCRYPTION_KEY: key,
  SECRETS_DECRYPTION_KEYS: list.refine(
    (entries) => entries.every((entry) => /^[0-9a-f]{8}:[0-9a-fA-F]{64}$/.test(entry)),
    'must be a comma list of keyid:hex',
  ),
  ACCESS_TOKEN_TTL_SECONDS: seconds(900, 1),
  SESSION_TTL_DAYS: count(30),
  AUTH_CODE_TTL_SECONDS: seconds(600, 1),
  AUTH_CODE_PER_MINUTE: count(1),
  AUTH_CODE_PER_DAY: count(10),
  AUTH_CODE_MAX_GUESSES: count(5),
  SMTP_URL: z.string().optional(),
  MAIL_FROM: z.string().optional(),
  ADMIN_EMAILS: list.transform((entries) => entries.map((entry) => entry.toLowerCase())),
  WAIT_MAX_SECONDS: seconds(120, 0.05),
  GENERATION_WAIT_MAX_SECONDS: seconds(600, 0.05),
  STREAMS_MAX: count(500),
  WEBHOOK_BACKOFF_BASE_SECONDS: seconds(20, 0.01),
  // An attempt has to end before the engine's 30 s for one try are over.
  WEBHOOK_TIMEOUT_SECONDS: z.coerce.number().min(0.05).max(25).default(10),
  WEBHOOK_ALLOW_HTTP: flag(false),
  DELIVERY_FIRST_ATTEMPT: z.enum(['inline', 'engine']).default('inline'),
  DELIVERY_RETENTION_DAYS: count(30),
  TOOL_EGRESS_ALLOWED_HOSTS: egressList(parseAllowList),
  EGRESS_DENIED_CIDRS: egressList(parseCidrs),
  DRAIN_SECONDS: seconds(330),
  SWEEP_INTERVAL_SECONDS: seconds(60, 1),
  CALL_HEARTBEAT_SECONDS: seconds(30, 3),
  CALL_SLOTS: count(500),
  DELIVERY_SLOTS: count(200),
});

export type Config = Omit<z.output<typeof Settings>, 'HOST' | 'METRICS_HOST'> & {
  HOST: string;
  METRICS_HOST: string;
  /** A receiver of traces is named. */
  tracing: boolean;
  /** Started by `npm start`, the demo or tests: the development mailbox exists, mails need no SMTP server. */
  localMode: boolean;
};

/** A setting that is missing or wrong; its message names every one of them. */
export class ConfigError extends Error {}

/**
 * Reads the settings from an environment.
 * @throws ConfigError naming each missing or bad setting.
 */
export function parseConfig(environment: Record<string, string | undefined>, localMode: boolean): Config {
  // A variable that is set to nothing counts as not set, except where nothing is a value of its own (lists).
  const given = Object.fromEntries(
    Object.entries(environment).filter(([, value]) => value !== undefined && value !== ''),
  );
  const parsed = Settings.safeParse(given);
  const problems = parsed.success
    ? []
    : parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`);
  if (parsed.success && !localMode) {
    if (parsed.data.SMTP_URL === undefined) problems.push('SMTP_URL: required outside local mode');
    if (parsed.data.MAIL_FROM === undefined) problems.push('MAIL_FROM: required with SMTP_URL');
  }
  if (parsed.success && localMode) problems.push(...openToOthers(parsed.data));
  if (!parsed.success || problems.length > 0) throw new ConfigError(`Bad settings:\n  ${problems.join('\n  ')}`);
  return { ...parsed.data, ...hostsOf(parsed.data, localMode), tracing: isTracing(parsed.data), localMode };
}

function hostsOf(settings: z.output<typeof Settings>, localMode: boolean): { HOST: string; METRICS_HOST: string } {
  const everyone = localMode ? '127.0.0.1' : '0.0.0.0';
  const { HOST = everyone, METRICS_HOST = everyone } = settings;
  return { HOST, METRICS_HOST };
}

const isTracing = (settings: z.output<typeof Settings>): boolean =>
  !settings.OTEL_SDK_DISABLED &&
  (settings.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? settings.OTEL_EXPORTER_OTLP_ENDPOINT) !== undefined;

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/;

/** Local mode shows its mailbox to whoever asks: a neighbour who could reach it would sign in as anyone. */
function openToOthers({ HOST, METRICS_HOST, PUBLIC_BASE_URL }: z.output<typeof Settings>): string[] {
  const problems: string[] = [];
  if (HOST !== undefined && !LOOPBACK.test(HOST)) problems.push('HOST: local mode listens on the loopback only');
  if (METRICS_HOST !== undefined && !LOOPBACK.test(METRICS_HOST))
    problems.push('METRICS_HOST: local mode listens on the loopback only');
  if (!LOOPBACK.test(new URL(PUBLIC_BASE_URL).hostname))
    problems.push('PUBLIC_BASE_URL: local mode is for the loopback only');
  return problems;
}

/** The database's address alone, for the migration command, which needs no other setting. */
export const databaseUrl = (): string | undefined => process.env.DATABASE_URL;

let current: Config | undefined;

/** The settings of this process, parsed at the first call. @throws ConfigError */
export function config(): Config {
  current ??= parseConfig(process.env, process.argv.includes('--local') || process.env.NODE_ENV === 'test');
  return current;
}
