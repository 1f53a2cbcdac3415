/** Settings that let a unit test load the list of routes; nothing of it connects. Import it before the routes. */
const settings: Record<string, string> = {
  DATABASE_URL: 'postgres://none@127.0.0.1:1/none',
  TEMPORAL_ADDRESS: '127.0.0.1:1',
  PUBLIC_BASE_URL: 'http://localhost:3000',
  JWT_SECRET: 'a secret of the tests, at least 32 bytes long',
  SECRETS_ENCRYPTION_KEY: '11'.repeat(32),
};

for (const [name, value] of Object.entries(settings)) process.env[name] ??= value;
