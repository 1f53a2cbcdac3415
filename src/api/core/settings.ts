import { z } from 'zod';
import { EgressListError, parseAllowList, parseCidrs } from './egress';
import { LadderError, parseLadder } from './ladder';

/** Who reads a setting: processes of the API, workers, both, or `npm start` alone. */
type Reader = 'api' | 'worker' | 'api, worker' | 'npm start';

/** What the reference page tells of a setting, beside its form and its default, which are read off the schema. */
export interface SettingFacts {
  description: string;
  reads: Reader;
  /** Must not be shown, logged or put into an image. */
  secret?: true;
  /** What has to be given, where the schema cannot tell. */
  form?: string;
  /** When it has to be given although the schema lets it be left out. */
  required?: string;
  /** The default, where it is not the schema's own. */
  fallback?: string;
  /** The default of `npm start`, where it differs. */
  local?: string;
}

const both = 'api, worker';

/** The facts of one setting, in the shape of zod's metadata. */
const about = (reads: Reader, description: string, more: Partial<SettingFacts> = {}): Record<string, unknown> => ({
  reads,
  description,
  ...more,
});

const seconds = (fallback: number, least = 0): z.ZodDefault<z.ZodCoercedNumber> =>
  z.coerce.number().min(least).default(fallback);
const count = (fallback: number, least = 1): z.ZodDefault<z.ZodCoercedNumber> =>
  z.coerce.number().int().min(least).default(fallback);
/** No window reaches back further than a day: what is older is removed. */
const window = (fallback: number): z.ZodDefault<z.ZodCoercedNumber> =>
  z.coerce.number().int().min(1).max(86_400).default(fallback);
const flag = (fallback: boolean): z.ZodType<boolean, string | undefined> =>
  z
    .enum(['true', 'false'])
    .optional()
    .transform((text) => (text === undefined ? fallback : text === 'true'))
    .meta({ form: '`true` or `false`', fallback: `\`${String(fallback)}\`` });
const list = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((entry) => entry.trim())
      .filter((entry) => entry !== ''),
  )
  .meta({ form: 'comma list', fallback: 'empty' });
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
const ladder = z
  .string()
  .default('')
  .transform((text, context) => {
    try {
      return parseLadder(text);
    } catch (error) {
      if (!(error instanceof LadderError)) throw error;
      context.addIssue({ code: 'custom', message: error.message });
      return z.NEVER;
    }
  });
const key = z.string().regex(/^[0-9a-fA-F]{64}$/, 'must be 32 bytes in hex');
/** Scheme, host and port as browsers send them; anything else would never match. */
const isOrigin = (text: string): boolean =>
  /^https?:\/\//.test(text) && URL.canParse(text) && new URL(text).origin === text;

const addresses = {
  HOST: z
    .string()
    .optional()
    .meta(about('api', 'address to listen on', { fallback: '`0.0.0.0`', local: '`127.0.0.1`, and no other' })),
  PORT: z.coerce.number().int().min(0).max(65_535).default(3000).meta(about('api', 'port to listen on')),
  PUBLIC_BASE_URL: z.url({ protocol: /^https?$/ }).meta(
    about(both, 'how callers reach the API; issuer of session tokens', {
      form: 'http or https URL',
      local: '`http://localhost:<PORT>`',
    }),
  ),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])
    .default('info')
    .meta(about(both, 'least level of the lines written')),
  DATA_DIR: z.string().min(1).default('.data').meta(about('npm start', 'folder of the data of local mode')),
};

const telemetry = {
  METRICS_HOST: z
    .string()
    .optional()
    .meta(
      about(both, 'address on which `/metrics` is served', {
        fallback: '`0.0.0.0`',
        local: '`127.0.0.1`, and no other',
      }),
    ),
  METRICS_PORT: z.coerce
    .number()
    .int()
    .min(0)
    .max(65_535)
    .default(9464)
    .meta(
      about(both, 'port of `/metrics`, which serves nothing else; `0` takes a free one', {
        local: 'free ports from 9464 on',
      }),
    ),
  ENGINE_METRICS_ADDRESS: z
    .string()
    .regex(/^\S+:\d+$/, 'must be host:port')
    .optional()
    .meta(about('worker', "where the engine's own client serves its metrics; unset: nowhere", { form: 'host:port' })),
  // The other variables of OpenTelemetry are read by its own libraries.
  OTEL_SDK_DISABLED: flag(false).meta(about(both, 'turns traces off')),
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .url({ protocol: /^https?$/ })
    .optional()
    .meta(about(both, 'receiver of traces; unset: there are none', { form: 'http or https URL' })),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: z
    .url({ protocol: /^https?$/ })
    .optional()
    .meta(about(both, 'the same, with the whole path', { form: 'http or https URL' })),
  OTEL_SERVICE_NAME: z.string().optional().meta(about(both, 'name of the process in traces and metrics')),
};

const stores = {
  DATABASE_URL: z
    .url({ protocol: /^postgres(ql)?$/ })
    .meta(about(both, 'PostgreSQL', { form: 'postgres URL', secret: true, local: 'embedded' })),
  DATABASE_POOL_MAX: count(20).meta(about(both, 'connections a process')),
  TEMPORAL_ADDRESS: z
    .string()
    .min(1)
    .meta(about(both, 'the engine', { form: 'host:port', local: 'embedded' })),
  TEMPORAL_NAMESPACE: z.string().min(1).default('default').meta(about(both, 'namespace of the engine')),
  TEMPORAL_UI_URL: z
    .string()
    .optional()
    .meta(about('npm start', "where the engine's pages are, when the engine is not the embedded one")),
};

const keys = {
  JWT_SECRET: z
    .string()
    .refine((text) => Buffer.byteLength(text) >= 32, 'must have at least 32 bytes')
    .meta(
      about(both, 'signs session tokens and cursors, keys digests of codes and requests', {
        form: 'text, at least 32 bytes',
        secret: true,
        local: 'made once',
      }),
    ),
  JWT_SECRETS_PREVIOUS: list.meta(about(both, 'former `JWT_SECRET`s; these still verify', { secret: true })),
  SECRETS_ENCRYPTION_KEY: key.meta(
    about(both, 'encrypts what must not be read in the database', {
      form: '64 hex digits',
      secret: true,
      local: 'made once',
    }),
  ),
  SECRETS_DECRYPTION_KEYS: list
    .refine(
      (entries) => entries.every((entry) => /^[0-9a-f]{8}:[0-9a-fA-F]{64}$/.test(entry)),
      'must be a comma list of keyid:hex',
    )
    .meta(
      about(both, 'former encryption keys; these still decrypt', { form: 'comma list of `keyid:hex`', secret: true }),
    ),
};

const signIn = {
  ACCESS_TOKEN_TTL_SECONDS: seconds(900, 1).meta(about('api', 'life of a session token')),
  SESSION_TTL_DAYS: count(30).meta(about('api', 'life of a session')),
  REFRESH_REUSE_GRACE: seconds(5).meta(about('api', 'seconds in which a spent refresh token is still taken')),
  ALLOWED_ORIGINS: list
    .refine((entries) => entries.every(isOrigin), 'must be a comma list of origins, as in https://app.example.com')
    .meta(
      about('api', 'origins, beside that of `PUBLIC_BASE_URL`, whose pages may use the refresh cookie', {
        form: 'comma list of origins',
      }),
    ),
  AUTH_CODE_TTL_SECONDS: seconds(600, 1).meta(about(both, 'life of a sign-in code')),
  AUTH_CODE_PER_MINUTE: count(1).meta(about('api', 'codes for one address')),
  AUTH_CODE_PER_DAY: count(10).meta(about('api', 'codes for one address')),
  INVITES_PER_DAY: count(50).meta(about('api', 'members that one person adds in 24 hours')),
  AUTH_CODE_MAX_GUESSES: count(5).meta(about('api', 'wrong guesses that destroy a code')),
  GOOGLE_CLIENT_ID: z
    .string()
    .optional()
    .meta(about('api', 'client id that Google sign-in is for; unset: there is none', { form: 'text' })),
  GOOGLE_JWKS_URL: z
    .url({ protocol: /^https?$/ })
    .default('https://www.googleapis.com/oauth2/v3/certs')
    .meta(about('api', 'keys that Google signs with', { form: 'http or https URL' })),
  SMTP_URL: z
    .url({ protocol: /^smtps?$/ })
    .optional()
    .meta(
      about(both, 'mail server', {
        form: 'smtp or smtps URL',
        secret: true,
        required: 'outside local mode',
        local: 'unset: mails stay in the mailbox',
      }),
    ),
  MAIL_FROM: z
    .string()
    .optional()
    .meta(about(both, 'sender of mails', { form: 'mail address', required: 'with `SMTP_URL`' })),
  ADMIN_EMAILS: list
    .transform((entries) => entries.map((entry) => entry.toLowerCase()))
    .meta(about('api', 'these get the platform role at their next sign-in', { form: 'comma list', fallback: 'empty' })),
};

const limits = {
  TRUST_PROXY: z.coerce
    .number()
    .int()
    .min(0)
    .default(0)
    .meta(about('api', 'proxies in front: so many addresses from the right of `X-Forwarded-For` stands the caller')),
  RATE_IP_LIMIT: count(3000).meta(about('api', 'requests of one address in the window')),
  RATE_IP_WINDOW_SECONDS: window(300).meta(about('api', 'that window')),
  RATE_AUTH_LIMIT: count(20).meta(about('api', 'codes asked for and shown by one address in the window')),
  RATE_AUTH_WINDOW_SECONDS: window(300).meta(about('api', 'that window')),
};

const plans = {
  PLANS: ladder.meta(
    about(both, "what replaces numbers of the plans' ladder; `null` is no limit", {
      form: 'JSON, as `{"free":{"projects":5}}`',
      fallback: 'the ladder',
    }),
  ),
};

const runs = {
  GENERATION_WAIT_MAX_SECONDS: seconds(600, 0.05).meta(about('api', 'longest `wait=true`; then 202')),
  WAIT_MAX_SECONDS: seconds(120, 0.05).meta(
    about('api', "longest wait for the removal of a trace's content; then 503, and it goes on"),
  ),
  STREAMS_MAX: count(500).meta(
    about('api', 'streams that one process holds open, and steps it makes for them; one more is 503'),
  ),
  CALL_HEARTBEAT_SECONDS: seconds(30, 3).meta(
    about(both, 'silence after which a call counts as lost; longer than a restart of the engine takes'),
  ),
  CALL_SLOTS: count(500).meta(about('worker', 'model and tool calls a process')),
  SWEEP_INTERVAL_SECONDS: seconds(60, 1).meta(about('worker', 'time between two passes of `sweep/starts`')),
  DRAIN_NOTICE_SECONDS: seconds(5).meta(
    about('api', 'how long a stopping process still takes requests, while its health says 503', { local: '`0`' }),
  ),
  DRAIN_SECONDS: seconds(330).meta(about(both, 'how long running calls and open answers may take to end at SIGTERM')),
};

const webhooks = {
  DELIVERY_FIRST_ATTEMPT: z
    .enum(['inline', 'engine'])
    .default('inline')
    .meta(about(both, '`engine`: every delivery is a workflow from its first attempt on')),
  DELIVERY_SLOTS: count(200).meta(about('worker', 'deliveries and mails a process')),
  DELIVERY_RETENTION_DAYS: count(30).meta(about(both, 'how long settled deliveries are kept')),
  WEBHOOK_BACKOFF_BASE_SECONDS: seconds(20, 0.01).meta(
    about(both, 'wait after the first failed attempt; doubles, a tenth of jitter'),
  ),
  // An attempt has to end before the engine's 30 s for one try are over.
  WEBHOOK_TIMEOUT_SECONDS: z.coerce.number().min(0.05).max(25).default(10).meta(about(both, 'one attempt')),
  WEBHOOK_ALLOW_HTTP: flag(false).meta(about('api', 'plain `http` endpoints', { local: '`true`' })),
};

const egress = {
  TOOL_EGRESS_ALLOWED_HOSTS: egressList(parseAllowList).meta(
    about(both, 'exempt from the address guard', {
      form: 'comma list of hosts and CIDRs',
      local: '`127.0.0.1,localhost`',
    }),
  ),
  EGRESS_DENIED_CIDRS: egressList(parseCidrs).meta(
    about(both, 'denied beside the ranges that are not public', { form: 'comma list of CIDRs' }),
  ),
};

/** The settings by subject, in the order of the reference page. A new one is added to a group, with its facts. */
export const settingGroups: { title: string; settings: Record<string, z.ZodType> }[] = [
  { title: 'Process', settings: addresses },
  { title: 'Metrics and traces', settings: telemetry },
  { title: 'Database and engine', settings: stores },
  { title: 'Keys', settings: keys },
  { title: 'Sign-in and mail', settings: signIn },
  { title: 'Limits', settings: limits },
  { title: 'Plans', settings: plans },
  { title: 'Runs', settings: runs },
  { title: 'Webhooks', settings: webhooks },
  { title: 'Outbound requests', settings: egress },
];

/** Every setting of the service; a name that is not here is not read. */
export const Settings = z.object({
  ...addresses,
  ...telemetry,
  ...stores,
  ...keys,
  ...signIn,
  ...limits,
  ...plans,
  ...runs,
  ...webhooks,
  ...egress,
});
