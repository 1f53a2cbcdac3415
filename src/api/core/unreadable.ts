import type { Duplex } from 'node:stream';
import { ApiError, errorBody } from './errors';
import { log } from './log';
import { newRequestId } from './request-id';

/**
 * Answers what the HTTP parser refused, oversized headers for one, before there is a request: in the envelope and with a
 * request id, like everything else. For the server's `clientError`.
 */
export function answerUnreadable(error: Error & { code?: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const requestId = newRequestId(undefined);
  const refused = new ApiError('bad_request', 'The request is malformed.');
  const body = JSON.stringify(errorBody(refused));
  log.info({ msg: 'unreadable request', request_id: requestId, status: refused.status, code: error.code });
  socket.end(
    [
      'HTTP/1.1 400 Bad Request',
      'Content-Type: application/json; charset=utf-8',
      `Content-Length: ${String(Buffer.byteLength(body))}`,
      `X-Request-Id: ${requestId}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
}
