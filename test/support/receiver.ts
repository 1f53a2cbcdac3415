import type { ReceivedRequest } from '../../src/local/receiver';

export { startReceiver, verifySignature } from '../../src/local/receiver';
export type { ReceivedRequest, Receiver } from '../../src/local/receiver';

/** The body of a received request as JSON; throws with the text when it is not. */
export function jsonOf(request: ReceivedRequest): Record<string, unknown> {
  try {
    return JSON.parse(request.body) as Record<string, unknown>;
  } catch (error) {
    throw new Error(`The body of ${request.method} ${request.path} is not JSON: ${request.body.slice(0, 500)}`, {
      cause: error,
    });
  }
}

/** The pauses between requests in milliseconds: what a test of retries looks at. */
export function gapsMs(requests: readonly ReceivedRequest[]): number[] {
  return requests.slice(1).map((request, index) => request.at - (requests[index]?.at ?? request.at));
}
