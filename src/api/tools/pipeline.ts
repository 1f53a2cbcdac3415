import { ApiError } from '../core/errors';
import { logicProblem } from './mapping';
import { stepsNamed } from './pipeline-references';
import type { PipelineFields } from './fields';

type Step = PipelineFields['steps'][number];

const STEPS_MAX = 20;

/**
 * Checks a pipeline as far as its text tells: 1 to 20 steps of unique ids, each with one tool that a step may run, inputs
 * and output usable and naming earlier steps only. `at` is where it stands in the input. Repeatable. Spec: Tools, pipeline.
 * @throws PIPELINE_INVALID_STEP naming the step in `meta.step_id`; ProgramsBusyError
 */
export async function assertPipeline({ steps, output }: PipelineFields, at = 'pipeline'): Promise<void> {
  if (steps.length === 0 || steps.length > STEPS_MAX) {
    throw invalidStep(`${at}.steps`, `must be 1 to ${String(STEPS_MAX)} steps`);
  }
  const earlier = new Set<string>();
  for (const [index, step] of steps.entries()) {
    const path = `${at}.steps.${String(index)}`;
    assertStepTool(step, path);
    if (earlier.has(step.id)) throw invalidStep(`${path}.id`, `${step.id} stands twice`, step.id);
    // As a list: an argument may be named like an operator.
    await assertLogic(Object.values(step.input), { path: `${path}.input`, stepId: step.id, known: earlier });
    earlier.add(step.id);
  }
  if (output !== undefined) await assertLogic(output, { path: `${at}.output`, known: earlier });
}

const invalidStep = (path: string, message: string, stepId?: string): ApiError =>
  new ApiError('PIPELINE_INVALID_STEP', `${path} ${message}.`, {
    ...(stepId === undefined ? {} : { meta: { step_id: stepId } }),
    details: [{ path, message }],
  });

function assertStepTool({ id, tool_id: toolId, tool, action }: Step, path: string): void {
  if ((toolId === undefined) === (tool === undefined)) {
    throw invalidStep(path, `must have either tool_id or tool`, id);
  }
  if (tool === undefined) return;
  if (tool.type === 'client' || tool.type === 'pipeline') {
    throw invalidStep(`${path}.tool.type`, `cannot be ${tool.type} in a step`, id);
  }
  if (tool.type === 'mcp' && action === undefined) {
    throw invalidStep(`${path}.action`, 'is required for an mcp tool', id);
  }
  if (tool.type === 'http' && action !== undefined) throw invalidStep(`${path}.action`, 'is for mcp tools only', id);
}

async function assertLogic(
  logic: unknown,
  { path, stepId, known }: { path: string; stepId?: string; known: ReadonlySet<string> },
): Promise<void> {
  const problem = await logicProblem(logic);
  if (problem !== null) throw invalidStep(path, problem, stepId);
  const unknown = stepsNamed(logic).find((id) => !known.has(id));
  if (unknown !== undefined) throw invalidStep(path, `names ${unknown}, which is no earlier step`, stepId);
}
