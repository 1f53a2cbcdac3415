import { Router } from 'express';
import type { Express, IRoute, NextFunction, Request, Response } from 'express';
import type { z } from 'zod';
import { BODY_BYTES_MAX, readBody } from './body';
import { clock } from './clock';
import { config } from './config';
import { isDatabaseDown, isProjectGone } from './db';
import { ApiError, errorBody, notFound, unavailable } from './errors';
import type { InputProblem } from './errors';
import { serveEvents } from './event-stream';
import { limitByIp, limitSignIn } from './ip-limit';
import { errorFacts, log } from './log';
import { withLogFacts } from './log-context';
import { observe } from './metrics';
import { ProgramsBusyError } from './programs';
import { newRequestId } from './request-id';
import { closedWhileArchived } from './route';
import type { Admission, Answer, Route } from './route';
import { openSpan } from './tracing';
import type { OpenSpan } from './tracing';

/** Resolves the credential and the project of a request. @throws unauthorized, not_found, access_denied */
export type Gate = (
  route: Route,
  authorization: string | undefined,
  projectId: string | undefined,
) => Promise<Admission>;

/** Mounts every route, then the answers for methods and paths that do not exist, then the one error handler. */
export function mountRoutes(app: Express, routes: Route[], gate: Gate): void {
  app.use(announce);
  app.use(limitByIp);
  const areas = new Map<string, Router>();
  for (const [path, alike] of byShape(routes)) {
    const router = areas.get(areaOf(path)) ?? Router();
    areas.set(areaOf(path), router);
    mountAlike(router, alike, gate);
    // Before the next shape: `:webhook_id` would take `whk_…:recover` for an identifier.
    const allowed = [...new Set(alike.map(({ method }) => method.toUpperCase()))].sort().join(', ');
    router.all(path, () => {
      throw new ApiError('method_not_allowed', 'The path has no such method.', { headers: { Allow: allowed } });
    });
  }
  app.use((req, res, next) => {
    const router = areas.get(areaOf(req.path));
    if (router === undefined) next();
    else router(req, res, next);
  });
  app.use(() => {
    throw notFound();
  });
  app.use(answerError);
}

/**
 * The part of a path that says which routes may match it: a router looks at its routes one by one, so each area has its own.
 * Told by literal segments alone, of a route's path and of a request's alike.
 */
function areaOf(path: string): string {
  const [, root = '', first = '', , inProject = ''] = path.toLowerCase().split('/', 5);
  if (root !== 'v1') return '';
  return first === 'projects' ? `projects/${inProject}` : first;
}

/** Methods of one path share one entry of the router, which looks at its entries one by one. */
function mountAlike(router: Router, alike: Route[], gate: Gate): void {
  const paths = new Map<string, IRoute>();
  for (const route of alike) {
    const entry = paths.get(route.path) ?? router.route(route.path);
    paths.set(route.path, entry);
    entry[route.method](serve(route, gate));
  }
}

/** The routes of each path, whatever its parameters are called, in the order of matching; with one spelling of the path. */
function byShape(routes: Route[]): Map<string, Route[]> {
  const shapes = new Map<string, Route[]>();
  for (const route of inOrderOfMatching(routes)) {
    const shape = route.path.replace(/:[a-z_]+/g, ':any');
    shapes.set(shape, [...(shapes.get(shape) ?? []), route]);
  }
  return new Map([...shapes.values()].map((alike) => [alike[0]?.path ?? '', alike]));
}

/** A literal segment is matched before a parameter. */
const inOrderOfMatching = (routes: Route[]): Route[] =>
  [...routes].sort((a, b) => weight(a.path).localeCompare(weight(b.path)));

const weight = (path: string): string =>
  path
    .split('/')
    .map((segment) => (/^:[a-z_]+$/.test(segment) ? '2' : segment.startsWith(':') ? '1' : `0${segment}`))
    .join('/');

/** Gives every response its request id, and writes one log line when it is sent: template and ids, never the URL. */
function announce(req: Request, res: Response, next: NextFunction): void {
  const startedMs = clock.ms();
  const requestId = newRequestId(req.headers['x-request-id']);
  res.locals.requestId = requestId;
  res.setHeader('X-Request-Id', requestId);
  const span = spanOf(req, requestId);
  res.locals.span = span;
  res.on('close', () => {
    const route = res.locals.route as Route | undefined;
    measure(req, res, (clock.ms() - startedMs) / 1000);
    if (route?.quiet === true) return;
    log.info({
      msg: 'request',
      request_id: requestId,
      ...span.logFacts(),
      method: req.method,
      route: route?.path ?? null,
      status: res.statusCode,
      ms: clock.ms() - startedMs,
      ...(res.writableFinished ? {} : { cut: true }),
      ...(res.locals.ids as Record<string, string> | undefined),
    });
  });
  withLogFacts({ request_id: requestId }, () => span.run(next));
}

/** A caller's `traceparent` is joined; its `tracestate` is not, since it may say anything and would go into histories. */
function spanOf(req: Request, requestId: string): OpenSpan {
  const { traceparent } = req.headers;
  return openSpan(req.method, {
    kind: 'server',
    traceparent: typeof traceparent === 'string' ? traceparent : undefined,
    facts: { 'http.request.method': req.method, 'url.scheme': req.protocol, 'svc.request_id': requestId },
  });
}

/** Takes an answered request down, by its template: a path that has none is one of `none`. */
function measure({ method }: Request, res: Response, seconds: number): void {
  const route = (res.locals.route as Route | undefined)?.path ?? 'none';
  const status = res.writableFinished || res.headersSent ? res.statusCode : 499; // Nobody was there to be answered.
  observe('httpSeconds', { method, route, status: `${String(Math.floor(status / 100))}xx` }, seconds);
  const span = res.locals.span as OpenSpan;
  span.set({ 'http.response.status_code': status });
  span.end(status >= 500 ? String(status) : undefined);
}

/** How long what the gate found holds while a body is on its way. */
const ADMISSION_MS_MAX = 1_000;

function serve(route: Route, gate: Gate) {
  return async (req: Request, res: Response): Promise<void> => {
    res.locals.route = route;
    const span = res.locals.span as OpenSpan;
    span.rename(`${req.method} ${route.path}`);
    span.set({ 'http.route': route.path });
    const { project_id: projectId, ...rest } = req.params as Record<string, string>;
    if (route.signIn === true) await limitSignIn(req);
    const admitted = await gate(route, req.headers.authorization, projectId);
    const admittedMs = clock.ms();
    res.locals.ids = {
      ...(projectId === undefined ? {} : { project_id: projectId }),
      principal_id: admitted.caller?.credentialId,
    };
    const raw = await readBody(req, res, route.bodyBytesMax ?? BODY_BYTES_MAX);
    // A body may come slowly: a pause or the end of a membership meanwhile counts.
    const isOld = clock.ms() - admittedMs > ADMISSION_MS_MAX;
    const admission = isOld ? await gate(route, req.headers.authorization, projectId) : admitted;
    if (route.body === undefined) refuseBody(raw);
    const query = parseInput(route.query, req.query, 'bad_request', 'query.');
    const body = route.body === undefined ? {} : parseInput(route.body, raw, route.inputCode, '');
    const params = parseParams(route.params, rest);
    if (admission.project?.status === 'archived' && closedWhileArchived(route)) {
      throw new ApiError('PROJECT_ARCHIVED', 'The project is archived.');
    }
    const answer = await route.handle({
      caller: admission.caller,
      project: admission.project,
      params,
      query,
      body,
      requestId: res.locals.requestId as string,
      header: (name) => req.get(name),
    });
    await send(route, res, answer);
  };
}

/** A route without a body takes an empty one or `{}`; anything else would be accepted and ignored. */
function refuseBody(body: unknown): void {
  const names = typeof body === 'object' && body !== null ? Object.keys(body) : [''];
  if (names.length > 0) {
    throw new ApiError('bad_request', 'This route takes no body.', {
      details: names.map((path) => ({ path, message: 'is not a known property' })),
    });
  }
}

function parseParams(schema: z.ZodType | undefined, given: Record<string, string>): unknown {
  if (schema === undefined) return {};
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const own = parsed.error.issues.find((issue) => issue.code === 'custom');
  if (own !== undefined) {
    throw new ApiError('bad_request', own.message, { details: [{ path: own.path.join('.'), message: own.message }] });
  }
  throw notFound();
}

function parseInput(
  schema: z.ZodType | undefined,
  given: unknown,
  code: 'bad_request' | 'VALIDATION_FAILED',
  prefix: string,
): unknown {
  if (schema === undefined) {
    const names = given === undefined ? [] : Object.keys(given as object);
    if (names.length === 0) return {};
    throw refusal(
      code,
      names.map((name) => ({ path: prefix + name, message: 'is not a known property' })),
    );
  }
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  throw refusal(code, problemsOf(parsed.error, prefix));
}

function refusal(code: 'bad_request' | 'VALIDATION_FAILED', details: InputProblem[]): ApiError {
  const first = details[0];
  const where = first === undefined || first.path === '' ? 'The input' : first.path;
  return new ApiError(code, `${where} ${first?.message ?? 'is not valid'}.`, { details });
}

/** The problems zod found, each with the path of the field; unknown properties are named one by one. */
export function problemsOf(error: z.ZodError, prefix: string): InputProblem[] {
  const problems = error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => ({ path: prefix + [...issue.path, key].join('.'), message: 'is not a known property' }))
      : [{ path: prefix + issue.path.join('.'), message: sentence(issue.message) }],
  );
  return problems.slice(0, 50);
}

const sentence = (message: string): string => message.charAt(0).toLowerCase() + message.slice(1).replace(/\.$/, '');

async function send(route: Route, res: Response, answer: Answer): Promise<void> {
  for (const [name, value] of Object.entries(answer.headers ?? {})) res.setHeader(name, value);
  if (answer.stream !== undefined) {
    res.status(answer.status);
    await serveEvents(res, answer.stream);
    return;
  }
  if (answer.file !== undefined) {
    res.status(answer.status).set('Content-Type', answer.file.type).send(answer.file.bytes);
    return;
  }
  const schema = route.answers[answer.status];
  if (config().localMode) checkAnswer(route, answer, schema);
  if (answer.body === undefined) res.status(answer.status).end();
  else res.status(answer.status).json(answer.body);
}

/** In development and tests every answer is held against the schema that the contract document shows. */
function checkAnswer(route: Route, answer: Answer, schema: z.ZodType | null | undefined): void {
  if (schema === undefined) throw new Error(`${route.id} answered ${String(answer.status)}, which it does not declare`);
  if (schema === null) {
    if (answer.body !== undefined) throw new Error(`${route.id} answered a body where it declares none`);
    return;
  }
  const parsed = schema.safeParse(answer.body);
  if (!parsed.success)
    throw new Error(`${route.id} answered what its schema refuses: ${JSON.stringify(problemsOf(parsed.error, ''))}`);
}

/** The one place where a thrown error becomes the error envelope. */
function answerError(error: unknown, _req: Request, res: Response, next: NextFunction): void {
  if (res.headersSent) {
    next(error);
    return;
  }
  const refused = asApiError(error, res.locals.requestId as string);
  for (const [name, value] of Object.entries(refused.extra.headers ?? {})) res.setHeader(name, value);
  res.status(refused.status).json(errorBody(refused));
}

function asApiError(error: unknown, requestId: string): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof URIError || (error as { status?: unknown }).status === 400) {
    return new ApiError('bad_request', 'The request is malformed.');
  }
  if (isProjectGone(error)) return notFound();
  if (error instanceof ProgramsBusyError) return unavailable();
  if (isDatabaseDown(error)) {
    log.warn({ msg: 'database unreachable', request_id: requestId, ...errorFacts(error) });
    return unavailable();
  }
  log.error({ msg: 'unforeseen error', request_id: requestId, ...errorFacts(error) });
  return new ApiError('internal_error', 'Something went wrong on our side.', { details: { request_id: requestId } });
}
