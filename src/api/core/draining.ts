let draining = false;

/** From now on this process tells balancers to turn away. There is no way back. */
export function beginDraining(): void {
  draining = true;
}

/** Whether this process is about to end. */
export const isDraining = (): boolean => draining;
