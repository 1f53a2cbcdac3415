import { createHash } from 'node:crypto';
import { randomText } from '../core/random';

/** The text that every API key starts with; the shape of a credential tells its kind. */
export const API_KEY_PREFIX = 'svc_sk_';

const API_KEY_CHARACTERS = 40;
const API_KEY = /^svc_sk_[0-9A-Za-z]{40}$/;

/** A fresh secret of an API key: the prefix and 40 characters of `[0-9A-Za-z]`. */
export const newApiKeySecret = (): string => API_KEY_PREFIX + randomText(API_KEY_CHARACTERS);

/** Whether a text has the shape of an API key. */
export const isApiKey = (text: string): boolean => API_KEY.test(text);

/** What is stored of a key or a refresh token, and by what it is found: the SHA-256 of the whole secret. */
export const digestOfSecret = (secret: string): Buffer => createHash('sha256').update(secret).digest();
