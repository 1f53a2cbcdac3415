import { startRelay } from '../support/relay';

/** Counts what is asked of a PostgreSQL server: it stands between the service and the server and reads along. */
export interface StatementCounter {
  /** The database's URL by way of the counter. */
  url: string;
  /** Statements of all connections since the start, oldest first. */
  statements: readonly string[];
  close(): Promise<void>;
}

/** Starts a counter in front of the database at `databaseUrl`. */
export async function startStatementCounter(databaseUrl: string): Promise<StatementCounter> {
  const { port, hostname } = new URL(databaseUrl);
  const statements: string[] = [];
  const reader = (): ((chunk: Buffer) => void) => messageReader((text) => statements.push(text));
  const relay = await startRelay({ port: Number(port), host: hostname }, { reader });
  const url = new URL(databaseUrl);
  url.port = String(relay.port);
  return { url: url.href, statements, close: () => relay.close() };
}

/** What one client's messages say: `P` prepares a text under a name (or none), `B` takes the one of a name up, `E` executes it; `Q` is a statement. */
function statementReader(onStatement: (text: string) => void): (type: string, body: string) => void {
  const prepared = new Map<string, string>();
  let current = '';
  return (type, body) => {
    const [first = '', second = ''] = body.split('\0', 2);
    if (type === 'P') prepared.set(first, second);
    if (type === 'B') current = prepared.get(second) ?? '';
    if (type === 'Q') onStatement(first);
    if (type === 'E') onStatement(current);
  };
}

/** Cuts what one client sends into messages: the first has a length only, all others a letter and a length that counts itself. */
function messageReader(onStatement: (text: string) => void): (chunk: Buffer) => void {
  const read = statementReader(onStatement);
  let rest = Buffer.alloc(0);
  let isStarted = false;
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const head = isStarted ? 1 : 0;
      if (rest.length < head + 4) return;
      const end = head + rest.readInt32BE(head);
      if (rest.length < end) return;
      if (isStarted) read(String.fromCharCode(rest[0] ?? 0), rest.subarray(head + 4, end).toString('utf8'));
      isStarted = true;
      rest = rest.subarray(end);
    }
  };
}
