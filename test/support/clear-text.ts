import { query } from '../../src/api/core/db';
import { engine } from '../../src/api/core/temporal';

/** The tables whose rows hold one of the texts, in the clear or as bytes. */
export async function tablesHolding(texts: string[]): Promise<string[]> {
  const tables = await query<{ name: string }>(
    `select table_name as name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'`,
  );
  const needles = texts.flatMap((text) => [`%${text}%`, `%${Buffer.from(text).toString('hex')}%`]);
  const found = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await query(`select 1 as found from "${name}" t where t::text like any($1::text[]) limit 1`, [
        needles,
      ]);
      return rows.length > 0 ? [name] : [];
    }),
  );
  return found.flat().sort();
}

/** Everything that a run's history holds, payloads decoded. */
export async function historyText(workflowId: string): Promise<string> {
  const history = await engine().workflow.getHandle(workflowId).fetchHistory();
  return JSON.stringify(history, (_key, value: unknown) => {
    if (value instanceof Uint8Array) return Buffer.from(value).toString('utf8');
    const buffer = value as { type?: unknown; data?: unknown } | null;
    return typeof buffer === 'object' && buffer?.type === 'Buffer' && Array.isArray(buffer.data)
      ? Buffer.from(buffer.data as number[]).toString('utf8')
      : value;
  });
}
