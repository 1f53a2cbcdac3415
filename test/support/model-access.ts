import { generateKeyPairSync } from 'node:crypto';
import type { ModelAccess } from '../../src/api/providers/access';

/** How to reach a model; what a test does not care about is null. */
export const accessTo = (provider: ModelAccess['provider'], given: Partial<ModelAccess> = {}): ModelAccess => ({
  provider,
  baseUrl: null,
  apiKey: null,
  cloud: null,
  region: null,
  project: null,
  location: null,
  apiVersion: null,
  ...given,
});

/** A service account's key file, and the public half of its key. */
export function keyFile(given: object = {}): { text: string; publicKey: string; privateKey: string } {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const text = JSON.stringify({
    type: 'service_account',
    project_id: 'project-of-the-file',
    private_key_id: 'key-1',
    private_key: privateKey,
    client_email: 'robot@project-of-the-file.iam.gserviceaccount.com',
    token_uri: 'http://169.254.169.254/token',
    ...given,
  });
  return { text, publicKey, privateKey };
}
