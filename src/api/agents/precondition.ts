import { ApiError, invalidInput } from '../core/errors';

/**
 * The version that a write states as the live one, from the body or the header `If-Match` (`3`, `"3"`, or `*` for none);
 * null = none stated.
 * @throws VALIDATION_FAILED when the header is malformed or the two differ
 */
export function statedVersion(ifMatch: string | undefined, expected: number | undefined): number | null {
  const fromHeader = headerVersion(ifMatch?.trim());
  if (fromHeader === null) return expected ?? null;
  if (expected !== undefined && expected !== fromHeader) {
    throw invalidInput('VALIDATION_FAILED', 'expected_version', 'differs from the header If-Match');
  }
  return fromHeader;
}

function headerVersion(ifMatch: string | undefined): number | null {
  if (ifMatch === undefined || ifMatch === '*') return null;
  const digits = /^(?:"(\d{1,15})"|(\d{1,15}))$/.exec(ifMatch);
  const version = Number(digits?.[1] ?? digits?.[2] ?? 0);
  if (version < 1) throw invalidInput('VALIDATION_FAILED', 'header.If-Match', 'must be one version, as 3 or "3", or *');
  return version;
}

/** Refuses a write that states another version than the live one. @throws VERSION_CONFLICT */
export function assertVersion(current: number, stated: number | null): void {
  if (stated === null || stated === current) return;
  throw new ApiError('VERSION_CONFLICT', `The live version is ${String(current)}.`, {
    meta: { current_version: current, expected_version: stated },
  });
}
