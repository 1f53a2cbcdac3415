import type { NextFunction, Request, Response } from 'express';
import { clientIp, networkOf } from './client-ip';
import { config } from './config';
import { inTransaction } from './db';
import { ApiError } from './errors';
import { RequestLimit } from './request-limit';
import { MAILBOX_PATH, UNLIMITED_PATHS } from './route';
import { takeFromWindows } from './sliding-windows';

const RETRY_SECONDS = 60;

const requests = new RequestLimit(() => ({
  limit: config().RATE_IP_LIMIT,
  windowSeconds: config().RATE_IP_WINDOW_SECONDS,
}));

/** The address that a request comes from, behind the proxies that `TRUST_PROXY` counts. */
const ipOf = (req: Request): string =>
  clientIp(req.socket.remoteAddress ?? '', req.get('X-Forwarded-For'), config().TRUST_PROXY);

/** The refusal of an address that has asked too often. */
const tooManyRequests = (): ApiError =>
  new ApiError('too_many_requests', 'Too many requests from this address.', {
    headers: { 'Retry-After': String(RETRY_SECONDS) },
  });

/** Outside local mode there is no mailbox: its path is counted like any other that leads nowhere. */
const isLimited = (path: string): boolean => (path === MAILBOX_PATH ? !config().localMode : !UNLIMITED_PATHS.has(path));

/** Lets an address ask only so often, before anything else is looked at. Spec: Limits, all requests. */
export async function limitByIp(req: Request, _res: Response, next: NextFunction): Promise<void> {
  if (isLimited(req.path) && !(await requests.take(networkOf(ipOf(req))))) throw tooManyRequests();
  next();
}

/** Lets an address ask for codes and show them only so often, exactly and over all processes. Spec: Limits, sign-in codes. */
export async function limitSignIn(req: Request): Promise<void> {
  const window = {
    kind: 'sign-in',
    key: networkOf(ipOf(req)),
    windows: [{ windowSeconds: config().RATE_AUTH_WINDOW_SECONDS, limit: config().RATE_AUTH_LIMIT }],
  };
  if ((await inTransaction((tx) => takeFromWindows(window, tx))) !== null) throw tooManyRequests();
}

/** Writes what is counted and not written yet; called before a process closes its database. */
export const flushRequestCounts = (): Promise<void> => requests.flush();
