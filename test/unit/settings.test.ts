import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { settingsPage } from '../../src/api/core/settings-reference';
import { Settings, settingGroups } from '../../src/api/core/settings';

/** Formatting widens tables; what is left are the words. */
const words = (text: string): string => text.replace(/-{3,}/g, '---').replace(/\s+/g, ' ').trim();

test('docs/settings.md is what `npm run settings` writes', () => {
  const page = readFileSync(resolve(__dirname, '../../docs/settings.md'), 'utf8');
  expect(words(page)).toBe(words(settingsPage()));
});

test('every setting belongs to one group, and says what it means and who reads it', () => {
  const grouped = settingGroups.flatMap(({ settings }) => Object.entries(settings));
  expect(grouped.map(([name]) => name).sort()).toEqual(Object.keys(Settings.shape).sort());
  for (const [name, setting] of grouped) {
    const facts = setting.meta() ?? {};
    expect([name, typeof facts['description'], typeof facts['reads']]).toEqual([name, 'string', 'string']);
  }
});

test('what opens the database, the mail server, or anything encrypted is marked as secret', () => {
  const secret = Object.entries(Settings.shape).filter(([, setting]) => setting.meta()?.['secret'] === true);
  expect(secret.map(([name]) => name).sort()).toEqual([
    'DATABASE_URL',
    'JWT_SECRET',
    'JWT_SECRETS_PREVIOUS',
    'SECRETS_DECRYPTION_KEYS',
    'SECRETS_ENCRYPTION_KEY',
    'SMTP_URL',
  ]);
});
