import { z } from 'zod';
import { settingGroups } from './settings';
import type { SettingFacts } from './settings';

const HEAD = `# Settings

Environment variables, read once at start; a missing or bad one stops the process and is named. Seconds take decimals. A variable
set to nothing counts as not set. Written by \`npm run settings\` from \`src/api/core/settings.ts\`.

**Secret** values never go into an image, a log or a repository. With \`npm start\` values that differ are in the last column; a
value in the environment wins over that of local mode.
`;

/** What the libraries and the programs of this repository read beside the schema. */
const TAIL = `## Read elsewhere

| Name | Read by | Meaning |
| --- | --- | --- |
| \`TEMPORAL_API_KEY\` (**secret**), \`TEMPORAL_TLS\`, \`TEMPORAL_TLS_CLIENT_CERT_PATH\`, \`TEMPORAL_TLS_CLIENT_KEY_PATH\`, \`TEMPORAL_TLS_SERVER_CA_CERT_PATH\`, \`TEMPORAL_TLS_SERVER_NAME\`, \`TEMPORAL_CONFIG_FILE\`, \`TEMPORAL_PROFILE\` | api, worker | the engine's client: how it signs in at the engine |
| \`TEMPORAL_CLI\` | npm start, tests | path of the Temporal CLI |
| \`OPENAI_API_KEY\` (**secret**), \`OPENAI_MODEL\`, \`OPENAI_BASE_URL\` | npm run demo | the real vendor in place of the stand-in |
`;

interface Shape {
  type?: string;
  enum?: string[];
  minimum?: number;
  maximum?: number;
  default?: string | number;
}

const factsOf = (setting: z.ZodType): SettingFacts => setting.meta() as unknown as SettingFacts;

const shapeOf = (setting: z.ZodType): Shape =>
  z.toJSONSchema(setting, { io: 'output', unrepresentable: 'any' }) as Shape;

/** `integer, at least 1`: whole numbers have the bounds of what a number can hold, which say nothing. */
function formOf({ form }: SettingFacts, { type, enum: words, minimum, maximum }: Shape): string {
  if (form !== undefined) return form;
  if (words !== undefined) return words.map((word) => `\`${word}\``).join(', ');
  if (type === 'string' || type === undefined) return 'text';
  const bounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  const bounds = bounded ? `${String(minimum)} to ${String(maximum)}` : `at least ${String(minimum)}`;
  return `${type}, ${bounds}`;
}

function defaultOf(setting: z.ZodType, { fallback, required }: SettingFacts, shape: Shape): string {
  if (required !== undefined) return `required ${required}`;
  if (fallback !== undefined) return fallback;
  if (shape.default === '') return 'empty';
  if (shape.default !== undefined) return `\`${String(shape.default)}\``;
  return setting.safeParse(undefined).success ? 'unset' : 'required';
}

function rowOf(name: string, setting: z.ZodType): string {
  const facts = factsOf(setting);
  const shape = shapeOf(setting);
  const meaning = `${facts.secret === true ? '**Secret.** ' : ''}${facts.description}`;
  const cells = [`\`${name}\``, formOf(facts, shape), defaultOf(setting, facts, shape), meaning, facts.reads];
  return `| ${[...cells, facts.local ?? ''].join(' | ')} |`;
}

/**
 * The reference page of all settings in Markdown, not yet formatted: one table a group, a row each with form, default, meaning,
 * who reads it, and what differs in local mode. Pure, the same text at every call.
 */
export function settingsPage(): string {
  const tables = settingGroups.map(({ title, settings }) => {
    const rows = Object.entries(settings).map(([name, setting]) => rowOf(name, setting));
    const head =
      '| Name | Form | Default | Meaning | Read by | With `npm start` |\n| --- | --- | --- | --- | --- | --- |';
    return `## ${title}\n\n${head}\n${rows.join('\n')}\n`;
  });
  return [HEAD, ...tables, TAIL].join('\n');
}
