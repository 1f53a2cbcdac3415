import { setTimeout as sleep } from 'node:timers/promises';
import { holds } from './report';
import { completed, saying, showSteps } from './runs';
import { runLink } from './stage';
import type { Scene } from './stage';

const QUESTION = 'Tell a customer in two sentences what becomes of a parcel that nobody takes in.';
const WORDS = [
  'The ',
  'parcel ',
  'waits ',
  'a week ',
  'in a shop ',
  'nearby. ',
  'After that ',
  'it ',
  'travels ',
  'back.',
];
/** After so many words the local model server stands still until we have read them. */
const HELD_AFTER = 4;
const HELD_MS = 500;
const GATE = 'demo-stream';

/** A run whose answer we read while the model still speaks. */
export async function streamedRun(scene: Scene): Promise<string> {
  const { report, api, vendor, local, model } = scene;
  if (vendor === null) {
    local.modelServer.script(model, [{ chunks: WORDS, holdAfterChunk: { n: HELD_AFTER, gate: GATE } }]);
  }
  report.fact('asked', QUESTION);
  const begun = performance.now();
  const since = (): string => `${String(Math.round(performance.now() - begun))} ms`;
  const stream = await api.generations.stream(scene, saying(QUESTION));
  const { generationId } = stream;
  report.fact('opened', `${generationId} after ${since()}`);
  report.fact('in Temporal', runLink(scene, generationId));
  report.begin('words');
  const words: string[] = [];
  for await (const text of stream) {
    words.push(text);
    report.piece(text);
    if (vendor === null && words.length === HELD_AFTER) {
      await sleep(HELD_MS);
      local.modelServer.release(GATE);
    }
  }
  report.line('');
  const { status } = await stream.result();
  holds(status === 'completed', `the stream ended as ${status}`);
  report.fact('[DONE]', `${String(words.length)} frames, the last after ${since()}`);
  if (vendor === null) {
    holds(words.length === WORDS.length, `${String(words.length)} frames for ${String(WORDS.length)} words`);
    report.say(`The model said word ${String(HELD_AFTER + 1)} only after we had read word ${String(HELD_AFTER)}.`);
    local.modelServer.script(model, []);
  }
  const record = await completed(scene, generationId);
  holds(record.step_count === 1, `${String(record.step_count)} steps, not 1`);
  await showSteps(scene, generationId);
  return generationId;
}
