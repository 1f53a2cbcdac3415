import { existsSync, readFileSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import Ajv2020 from 'ajv/dist/2020';
import addFormats from 'ajv-formats';
import { parse } from 'yaml';
import { parseConfig } from '../../src/api/core/config';
import { Settings } from '../../src/api/core/settings';

interface Service {
  image?: string;
  build?: string;
  command?: string[];
  ports?: string[];
  environment?: Record<string, string>;
  volumes?: string[];
  depends_on?: Record<string, { condition: string }>;
  healthcheck?: { test?: string[]; disable?: boolean };
  restart?: string;
  stop_grace_period?: string;
}

const root = resolve(__dirname, '../..');
const read = (name: string): string => readFileSync(resolve(root, name), 'utf8');
const text = read('docker-compose.yml');
const file = parse(text, { merge: true }) as { services: Record<string, Service>; volumes: Record<string, unknown> };
const services = Object.entries(file.services);
const ours = ['api', 'worker', 'migrate'];

/** `${NAME}`, `${NAME:-default}`, `${NAME:?message}`, as compose replaces them. */
const filled = (value: string, given: Record<string, string>): string =>
  value.replace(/\$\{(\w+)(?::([-?])([^}]*))?\}/g, (_all, name: string, kind: string | undefined, rest: string) => {
    const set = given[name] ?? '';
    if (set !== '') return set;
    if (kind === '?') throw new Error(`${name}: ${rest}`);
    return kind === '-' ? rest : '';
  });

const answers = {
  POSTGRES_PASSWORD: 'ab12',
  TEMPORAL_POSTGRES_PASSWORD: 'cd34',
  JWT_SECRET: 'x'.repeat(64),
  SECRETS_ENCRYPTION_KEY: 'ab'.repeat(32),
  PUBLIC_BASE_URL: 'https://api.example.test',
  SMTP_URL: 'smtps://user:word@mail.example.test',
  MAIL_FROM: 'no-reply@example.test',
};

/** What `.env.example` asks to be filled in. */
const example = Object.fromEntries(
  read('.env.example')
    .split('\n')
    .flatMap((line) => /^(\w+)=(.*)$/.exec(line)?.slice(1, 3) ?? [])
    .reduce<[string, string][]>((pairs, part, index, all) => {
      if (index % 2 === 0) pairs.push([part, all[index + 1] ?? '']);
      return pairs;
    }, []),
);

test('docker-compose.yml satisfies the published schema of compose files', () => {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats(ajv);
  ajv
    .addFormat('ports', true)
    .addFormat('expose', true)
    .addFormat('duration', true)
    .addFormat('subnet_ip_address', true);
  const schema = JSON.parse(read('test/support/fixtures/compose-spec/compose-spec.json')) as object;
  expect(ajv.validate(schema, file)).toBe(true);
  expect(ajv.validate(schema, { services: { api: { imagee: 'x' } } })).toBe(false);
});

test.each(ours)('%s starts with what .env.example asks for, and no secret has a default', (name) => {
  const { environment = {} } = file.services[name] ?? {};
  const asked = Object.keys(example);
  expect(Object.keys(answers).filter((required) => !asked.includes(required))).toEqual([]);
  const given = Object.fromEntries(
    Object.entries(environment).map(([key, value]) => [key, filled(value, { ...example, ...answers })]),
  );
  expect(parseConfig(given, false)).toMatchObject({ DRAIN_SECONDS: 330, TEMPORAL_ADDRESS: 'temporal:7233' });
  for (const missing of Object.keys(answers).filter((key) => key !== 'TEMPORAL_POSTGRES_PASSWORD')) {
    const without = { ...answers, [missing]: '' };
    expect(() => Object.values(environment).map((value) => filled(value, without))).toThrow(missing);
  }
});

test('every setting that a process reads can be given, and nothing else is passed on', () => {
  const known = Object.entries(Settings.shape).filter(([, setting]) => setting.meta()?.['reads'] !== 'npm start');
  const passed = Object.keys(file.services['api']?.environment ?? {});
  expect(passed.sort()).toEqual(known.map(([name]) => name).sort());
});

test('only the port of the API is open to others, on its own default', () => {
  const open = services.flatMap(([name, { ports = [] }]) => ports.map((port) => [name, filled(port, {})]));
  expect(open.filter(([, port]) => port?.startsWith('127.0.0.1:') !== true)).toEqual([['api', '3000:3000']]);
  expect(parseConfig({ ...answers, DATABASE_URL: 'postgres://x/y', TEMPORAL_ADDRESS: 'x:1' }, false).PORT).toBe(3000);
});

test('a stop is given the time that API and worker take', () => {
  const { DRAIN_SECONDS, DRAIN_NOTICE_SECONDS } = Settings.parse({
    ...answers,
    DATABASE_URL: 'postgres://x/y',
    TEMPORAL_ADDRESS: 'x:1',
  });
  for (const name of ['api', 'worker']) {
    const grace = Number.parseInt(file.services[name]?.stop_grace_period ?? '', 10);
    expect(grace).toBeGreaterThan(DRAIN_SECONDS + DRAIN_NOTICE_SECONDS);
  }
});

test('what waits for another service waits for its health or its end, and what lives has a check', () => {
  for (const [name, { depends_on: needs = {} }] of services) {
    for (const [other, { condition }] of Object.entries(needs)) {
      const target = file.services[other];
      expect([name, other, target !== undefined]).toEqual([name, other, true]);
      if (condition === 'service_healthy') expect(target?.healthcheck?.test).toBeDefined();
      else expect([condition, target?.restart]).toEqual(['service_completed_successfully', 'on-failure']);
    }
  }
});

test('every mounted file, and every program that is run, is there', () => {
  for (const [, { volumes = [], command = [] }] of services) {
    for (const source of volumes.map((volume) => volume.split(':')[0] ?? '')) {
      if (source.startsWith('./')) expect(statSync(resolve(root, source)).isFile()).toBe(true);
      else expect(Object.keys(file.volumes)).toContain(source);
    }
    const [mounted] = command.filter((word) => word.startsWith('/deploy/'));
    if (mounted !== undefined) expect(volumes.some((volume) => volume.includes(`:${mounted}:`))).toBe(true);
  }
  const programs = ours.flatMap((name) => [
    ...(file.services[name]?.command ?? []),
    ...(file.services[name]?.healthcheck?.test ?? []),
  ]);
  for (const program of programs.filter((word) => word.startsWith('dist/'))) {
    expect(existsSync(resolve(root, program.replace(/^dist/, 'src').replace(/\.js$/, '.ts')))).toBe(true);
  }
});

test('the engine has the settings that the service counts on', () => {
  const { environment = {}, volumes = [] } = file.services['temporal'] ?? {};
  expect(environment).toMatchObject({ NUM_HISTORY_SHARDS: '512', DB: 'postgres12' });
  expect(volumes.join()).toContain(environment['DYNAMIC_CONFIG_FILE_PATH']);
  expect(parse(read('deploy/temporal-dynamic-config.yaml'))).toEqual({
    'history.maxInFlightUpdates': [{ value: 1000, constraints: {} }],
  });
  expect(read('deploy/temporal-namespace.sh')).toContain('--retention 720h');
});

test('every image in use is in the list of what was checked, and none floats', () => {
  const listed = (JSON.parse(read('deploy/images.json')) as { image: string }[]).map(({ image }) => image);
  const bases = [...read('Dockerfile').matchAll(/^FROM (\S+)/gm)].map(([, image]) => image);
  const used = services.flatMap(([, { image, build }]) => (image === undefined || build !== undefined ? [] : [image]));
  expect([...new Set([...bases, ...used])].sort()).toEqual(listed.sort());
  expect(listed.filter((image) => !/:[\w.]*\d/.test(image))).toEqual([]);
});
