import { InterceptingCall, Metadata, status } from '@grpc/grpc-js';
import type { Interceptor, StatusObject } from '@grpc/grpc-js';
import { defaultGrpcRetryOptions, isRetryableError, makeGrpcRetryInterceptor } from '@temporalio/client';
import { clock } from './clock';

/** A call that is answered as cancelled the moment it begins. */
const endedCall = (details: string): InterceptingCall =>
  new InterceptingCall({
    cancelWithStatus: () => undefined,
    getPeer: () => '',
    start: (_metadata, listener) => {
      listener?.onReceiveStatus?.({ code: status.CANCELLED, details, metadata: new Metadata() });
    },
    sendMessageWithContext: () => undefined,
    sendMessage: () => undefined,
    startRead: () => undefined,
    halfClose: () => undefined,
    getAuthContext: () => null,
  });

/**
 * Ends a call whose next try comes after the connection's end. The SDK makes that try in a timer of its own: what it throws
 * there ends the process, and whoever waits for the call waits for ever. It stands below the interceptor that tries again.
 */
export const endWithConnection: Interceptor = (options, nextCall) => {
  try {
    return new InterceptingCall(nextCall(options));
  } catch (error) {
    return endedCall(error instanceof Error ? error.message : String(error));
  }
};

/** The longest pause between two tries, so that a call ends soon after its deadline, and soon after the engine is back. */
const PAUSE_MS_MAX = 1_000;

const byDefault = defaultGrpcRetryOptions();

/**
 * Tries a call again that the engine did not answer: until its deadline where it has one, be that long or short, else as often
 * as the SDK does by itself. A try after the deadline would fail at once.
 */
export const tryAgain: Interceptor = (options, nextCall) => {
  const { deadline } = options;
  if (deadline === undefined) return makeGrpcRetryInterceptor(byDefault)(options, nextCall);
  const retry = {
    delayFunction: (attempt: number, status: StatusObject) =>
      Math.min(PAUSE_MS_MAX, byDefault.delayFunction(attempt, status)),
    retryableDecider: (_attempt: number, status: StatusObject) =>
      clock.ms() < Number(deadline) && isRetryableError(status),
  };
  return makeGrpcRetryInterceptor(retry)(options, nextCall);
};
