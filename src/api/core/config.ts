import type { z } from 'zod';
import { Settings } from './settings';

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
  if (parsed.success) problems.push(...mailUnset(parsed.data, localMode));
  if (parsed.success && localMode) problems.push(...openToOthers(parsed.data));
  if (!parsed.success || problems.length > 0) throw new ConfigError(`Bad settings:\n  ${problems.join('\n  ')}`);
  return { ...parsed.data, ...hostsOf(parsed.data, localMode), tracing: isTracing(parsed.data), localMode };
}

/** Local mode keeps its mails in the mailbox, unless it is given a mail server, which needs a sender there too. */
function mailUnset({ SMTP_URL, MAIL_FROM }: z.output<typeof Settings>, localMode: boolean): string[] {
  if (localMode && SMTP_URL === undefined) return [];
  const problems: string[] = [];
  if (SMTP_URL === undefined) problems.push('SMTP_URL: required outside local mode');
  if (MAIL_FROM === undefined) problems.push('MAIL_FROM: required with SMTP_URL');
  return problems;
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
