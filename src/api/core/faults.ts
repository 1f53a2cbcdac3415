/**
 * A named place at which a test may stop the process, to show that what was committed before it is not lost. Does
 * nothing unless a test has put a function in place before the service was loaded.
 */
export async function faultPoint(name: string): Promise<void> {
  const hook = (globalThis as { svcFaultPoint?: (name: string) => Promise<void> | void }).svcFaultPoint;
  if (hook !== undefined) await hook(name);
}
