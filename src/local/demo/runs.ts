import { unwrap } from '@agent-platform/sdk';
import type { Generation } from '@agent-platform/sdk';
import { holds } from './report';
import { runLink } from './stage';
import type { Scene } from './stage';

const SETTLED_MS = 90_000;
const TEXT_SHOWN_MAX = 160;

/** A generation record, as far as the demo looks at it. */
type GenerationRecord = Pick<Generation, 'status' | 'step_count' | 'error'>;

export const saying = (content: string) => ({ messages: [{ role: 'user' as const, content }] });

/** Starts a run that nobody waits for. Not repeatable: each call starts one. */
export async function startRun(scene: Scene, content: string): Promise<string> {
  const { report, api } = scene;
  report.fact('asked', content);
  const begun = performance.now();
  const id = await api.generations.start(scene, saying(content));
  report.fact('accepted', `${id} after ${String(Math.round(performance.now() - begun))} ms`);
  report.fact('in Temporal', runLink(scene, id));
  return id;
}

/** The record of a run as it stands. */
export async function readRun({ api, projectId }: Scene, id: string): Promise<GenerationRecord> {
  const params = { path: { project_id: projectId, generation_id: id } };
  return await unwrap(api.GET('/v1/projects/{project_id}/generations/{generation_id}', { params }));
}

/**
 * Waits for the end of a run.
 * @throws Error when it does not complete in time
 */
export async function completed(scene: Scene, id: string): Promise<GenerationRecord> {
  const timeoutMs = SETTLED_MS + scene.heartbeatSeconds * 1000;
  const record = await scene.api.generations.wait({ projectId: scene.projectId, generationId: id }, { timeoutMs });
  const why = record.error === null ? '' : `: ${record.error.code ?? ''} ${record.error.message}`;
  holds(record.status === 'completed', `${id} is ${record.status}${why}`);
  return record;
}

/** Reads what was stored of a settled run and prints it. @returns the number of stored steps */
export async function showSteps({ report, api, projectId }: Scene, id: string): Promise<number> {
  const params = { path: { project_id: projectId, generation_id: id } };
  const { steps, output } = await unwrap(
    api.GET('/v1/projects/{project_id}/generations/{generation_id}/transcript', { params }),
  );
  const words = steps.map(({ tool_calls: calls }, index) => {
    const what = calls.length === 0 ? 'text' : calls.map(({ tool_name: name }) => name).join(' + ');
    return `${String(index + 1)} ${what}`;
  });
  report.fact('stored steps', words.join(', '));
  report.fact('answer', (output?.content ?? '').replace(/\s+/g, ' ').slice(0, TEXT_SHOWN_MAX));
  return steps.length;
}

/** How often the http tool was called for an order. */
export const lookups = ({ orders }: Scene, order: string): number =>
  orders.requests.filter(({ path }) => path === `/orders/${order}`).length;

/** A run that we wait for: it calls the http tool, pauses for the client tool, takes its output and completes. */
export async function waitedRun(scene: Scene): Promise<string> {
  const { report, api } = scene;
  const order = 'ord_1042';
  const content = `First call get_order with order_id ${order}, then call approve_refund with order_id ${order}.`;
  report.fact('asked', content);
  const begun = performance.now();
  const paused = await api.generations.run(scene, saying(content));
  const calls = paused.required_action?.tool_calls ?? [];
  report.fact('paused', `${paused.id} after ${String(Math.round(performance.now() - begun))} ms`);
  report.fact('in Temporal', runLink(scene, paused.id));
  holds(paused.status === 'requires_action' && calls.length > 0, `${paused.id} is ${paused.status}, not paused`);
  holds(lookups(scene, order) > 0, `the http tool was not called for ${order}`);
  report.fact('http tool', `get_order was called: GET /orders/${order}`);
  for (const call of calls) report.fact('asked of us', `${call.tool_name} (${call.id})`);
  const again = performance.now();
  const done = await api.generations.submitToolOutputs(
    { ...scene, generationId: paused.id },
    calls.map(({ id }) => ({ tool_call_id: id, output: { approved: true } })),
  );
  holds(done.id === paused.id && done.status === 'completed', `${done.id} is ${done.status}, not completed`);
  report.fact('completed', `${done.id} ${String(Math.round(performance.now() - again))} ms after our output`);
  await showSteps(scene, done.id);
  return done.id;
}

/** A run that nobody waits for, looked at until it is over. */
export async function backgroundRun(scene: Scene): Promise<string> {
  const order = 'ord_1043';
  const id = await startRun(scene, `Call get_order with order_id ${order} and say how it stands.`);
  const record = await completed(scene, id);
  scene.report.fact('completed', `${id}, ${String(record.step_count)} steps`);
  await showSteps(scene, id);
  return id;
}
