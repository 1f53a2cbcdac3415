import { ApiError } from '../../src/api/core/errors';
import { assertRunnable } from '../../src/api/projects/runnable';

const active = { status: 'active' as const, pausedAt: null, pauseReason: null };
const paused = { ...active, pausedAt: new Date('2026-03-01T00:00:00.000Z') };

function refusalOf(project: Parameters<typeof assertRunnable>[0]): ApiError | null {
  try {
    assertRunnable(project);
    return null;
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

describe('starting work in a project', () => {
  test('is allowed while it is active', () => {
    expect(refusalOf(active)).toBeNull();
  });

  test.each(['incident', null])('is refused while it is paused, with the reason %j', (pauseReason) => {
    const refusal = refusalOf({ ...paused, pauseReason });
    expect(refusal).toMatchObject({
      status: 409,
      code: 'PROJECT_PAUSED',
      extra: { meta: { pause_reason: pauseReason } },
    });
  });

  test('is refused in an archived one, paused or not', () => {
    expect(refusalOf({ ...active, status: 'archived' })).toMatchObject({ status: 409, code: 'PROJECT_ARCHIVED' });
    expect(refusalOf({ ...paused, status: 'archived' })).toMatchObject({ code: 'PROJECT_ARCHIVED' });
  });
});
