import { InterceptingCall, Metadata, status } from '@grpc/grpc-js';
import type { Interceptor } from '@grpc/grpc-js';

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
