import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { AUTHORITATIVE_ANSWER, decode, encode } from 'dns-packet';
import type { Answer } from 'dns-packet';
import type { Lookup } from '../../src/api/core/http';

/** What a name has: addresses of both families, or another name. With several answers each look-up takes the next, the last one stays. */
export type Zone = Record<string, readonly NameAnswer[]>;
type NameAnswer = { a?: readonly string[]; aaaa?: readonly string[]; cname?: string };

export interface DnsServer {
  /** Looks names up as a service would whose resolver is this server: both families, over UDP. */
  lookup: Lookup;
  /** Names looked up, in order. */
  asked: () => string[];
  forget: () => void;
  /** Adds names or changes them; their answers begin anew. */
  set: (zone: Zone) => void;
  close: () => Promise<void>;
}

const CNAMES_MAX = 10;
const NXDOMAIN = 3;
const TTL = 0;

class Names {
  readonly #zone = new Map<string, readonly NameAnswer[]>();
  /** Look-ups made of a name; A and AAAA of one look-up take the same answer. */
  readonly #taken = new Map<string, { A: number; AAAA: number }>();

  set(zone: Zone): void {
    for (const [name, answers] of Object.entries(zone)) {
      this.#zone.set(name, answers);
      this.#taken.delete(name);
    }
  }

  /** The records that answer a question, or null for a name that is not there. */
  answers(question: string, type: 'A' | 'AAAA'): Answer[] | null {
    const records: Answer[] = [];
    let name = question.toLowerCase();
    for (let links = 0; links < CNAMES_MAX; links += 1) {
      const found = this.#next(name, type);
      if (found === undefined) return links === 0 ? null : records;
      if (found.cname === undefined) {
        const addresses = (type === 'A' ? found.a : found.aaaa) ?? [];
        return [...records, ...addresses.map((data) => ({ type, name, ttl: TTL, data }))];
      }
      records.push({ type: 'CNAME', name, ttl: TTL, data: found.cname });
      name = found.cname;
    }
    return records;
  }

  #next(name: string, type: 'A' | 'AAAA'): NameAnswer | undefined {
    const answers = this.#zone.get(name);
    const taken = this.#taken.get(name) ?? { A: 0, AAAA: 0 };
    this.#taken.set(name, { ...taken, [type]: taken[type] + 1 });
    return answers?.[Math.min(taken[type], answers.length - 1)];
  }
}

/** A name server on 127.0.0.1 whose every answer has TTL 0. */
export async function startDnsServer(): Promise<DnsServer> {
  const names = new Names();
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (message, from) => {
    const query = decode(message);
    const question = query.questions?.[0];
    const type = question?.type === 'AAAA' ? 'AAAA' : 'A';
    const answers = question === undefined ? null : names.answers(question.name, type);
    const reply = encode({
      type: 'response',
      id: query.id ?? 0,
      flags: AUTHORITATIVE_ANSWER | (answers === null ? NXDOMAIN : 0),
      questions: query.questions ?? [],
      answers: answers ?? [],
    });
    socket.send(reply, from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  const resolver = new Resolver({ timeout: 1_000, tries: 2 });
  resolver.setServers([`127.0.0.1:${String(socket.address().port)}`]);
  return {
    lookup: async (hostname) => {
      asked.push(hostname);
      const [four, six] = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]);
      const found = [four, six].flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
      if (found.length === 0 && four.status === 'rejected') throw four.reason;
      return found.map((address) => ({ address }));
    },
    asked: () => [...asked],
    forget: () => {
      asked.length = 0;
    },
    set: (zone) => {
      names.set(zone);
    },
    close: () => {
      resolver.cancel();
      return new Promise((resolve) => socket.close(() => resolve()));
    },
  };
}
