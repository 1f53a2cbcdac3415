import { randomBytes, randomFillSync, randomInt } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Asking the secure source for many bytes costs hardly more than asking for one; each byte is given out once. */
const stock = Buffer.alloc(4_096);
let used = stock.length;

function randomByte(): number {
  if (used === stock.length) {
    randomFillSync(stock);
    used = 0;
  }
  const byte = stock.readUInt8(used);
  stock[used] = 0;
  used += 1;
  return byte;
}

/** `length` characters of `[0-9A-Za-z]`, uniform, from a secure source. */
export function randomText(length: number): string {
  let text = '';
  while (text.length < length) {
    const byte = randomByte();
    // From 248 on they are thrown away: 256 is no multiple of 62, and the first letters would come up more often.
    if (byte < 248) text += ALPHABET[byte % 62] ?? '';
  }
  return text;
}

/** Standard base64 (padded) of `bytes` random bytes. */
export const randomBase64 = (bytes: number): string => randomBytes(bytes).toString('base64');

/** Base64url of `bytes` random bytes. */
export const randomBase64Url = (bytes: number): string => randomBytes(bytes).toString('base64url');

/** `digits` uniform decimal digits, leading zeros kept. */
export const randomDigits = (digits: number): string => String(randomInt(0, 10 ** digits)).padStart(digits, '0');

/** A factor from `1 - spread` to `1 + spread`, uniform; used for the jitter of retries. */
export const randomFactor = (spread: number): number => 1 - spread + (randomInt(0, 2 ** 32) / 2 ** 32) * 2 * spread;
