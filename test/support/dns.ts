import type { Lookup } from '../../src/api/core/http';

export interface TestLookup {
  lookup: Lookup;
  /** Names asked for, in order. */
  asked: string[];
}

/** A resolver out of a table: each call for a name takes its next answer, the last one stays. Other names fail as a resolver does. */
export function testLookup(table: Readonly<Record<string, readonly (readonly string[])[]>>): TestLookup {
  const asked: string[] = [];
  const taken = new Map<string, number>();
  const lookup: Lookup = (hostname) => {
    asked.push(hostname);
    const answers = table[hostname];
    const index = taken.get(hostname) ?? 0;
    taken.set(hostname, index + 1);
    const addresses = answers?.[Math.min(index, answers.length - 1)];
    if (addresses === undefined) {
      return Promise.reject(Object.assign(new Error(`getaddrinfo ENOTFOUND ${hostname}`), { code: 'ENOTFOUND' }));
    }
    return Promise.resolve(addresses.map((address) => ({ address })));
  };
  return { lookup, asked };
}
