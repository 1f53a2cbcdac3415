import { clock } from '../core/clock';
import { observe } from '../core/metrics';
import { inSpan } from '../core/tracing';
import type { CallOutcome } from './outcome';
import type { ToolSnapshot } from './snapshot';

/** Makes a call in a span, and takes down how long it took: told are kind and ids of the tool, not its name. */
export async function measuredCall({ id, type }: ToolSnapshot, call: () => Promise<CallOutcome>): Promise<CallOutcome> {
  const startedMs = clock.ms();
  const facts = { 'gen_ai.operation.name': 'execute_tool', 'svc.tool_id': id, 'svc.tool_type': type };
  let outcome = 'cut';
  try {
    return await inSpan('execute_tool', { kind: 'internal', facts }, async (span) => {
      const ended = await call();
      outcome = ended.kind;
      if (ended.kind === 'error') span.set({ 'error.type': ended.error.code });
      return ended;
    });
  } finally {
    observe('toolSeconds', { type, outcome }, (clock.ms() - startedMs) / 1000);
  }
}
