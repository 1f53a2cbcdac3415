/** Express and pg with the two statements of a read: the credential with its membership, then the record or the page. */
import { createHash } from 'node:crypto';
import express from 'express';
import pg from 'pg';

const pool = new pg.Pool({ connectionString: process.argv[2], max: 20 });
const CREDENTIAL = `
  select k.id, k.project_id, u.id as user_id, u.roles, p.id as project, p.status, m.role
  from api_keys k join users u on u.id = k.user_id
  left join project_members m on m.user_id = u.id and m.project_id = $1 left join projects p on p.id = m.project_id
  where k.key_hash = $2`;
const COLUMNS = `id, project_id, agent_id, trace_id, status, stop_reason, error, agent_version, ai_provider_id, model,
  input_tokens, output_tokens, cached_tokens, cost_usd, step_count, initiator_generation_id, action_id, metadata,
  started_by_principal_type, started_by_principal_id, started_at, completed_at, last_activity_at, created_at, updated_at,
  content_redacted_at`;

async function admitted(request, response) {
  const secret = (request.headers.authorization ?? '').slice('Bearer '.length);
  const hash = createHash('sha256').update(secret).digest();
  const { rows } = await pool.query({ name: 'credential', text: CREDENTIAL, values: [request.params.project, hash] });
  if (rows[0]?.role === undefined) response.status(404).json({ error: { code: 'not_found' } });
  return rows[0]?.role !== undefined;
}

const app = express();
app.get('/v1/projects/:project/generations/:id', async (request, response) => {
  if (!(await admitted(request, response))) return;
  const text = `select ${COLUMNS} from generations where project_id = $1 and id = $2`;
  const { rows } = await pool.query({ name: 'one', text, values: [request.params.project, request.params.id] });
  response.json(rows[0]);
});
app.get('/v1/projects/:project/generations', async (request, response) => {
  if (!(await admitted(request, response))) return;
  const page = `select ${COLUMNS} from generations where project_id = $1 order by created_at desc, id desc limit 50`;
  const total = 'select count(*) from generations where project_id = $1';
  const [rows, count] = await Promise.all([
    pool.query({ name: 'page', text: page, values: [request.params.project] }),
    pool.query({ name: 'total', text: total, values: [request.params.project] }),
  ]);
  response.json({ data: rows.rows, total: Number(count.rows[0].count), limit: 50, offset: 0 });
});
const server = app.listen(0, '127.0.0.1', () => process.send(server.address().port));
