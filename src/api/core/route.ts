import type { z } from 'zod';
import type { Caller, Needs, Role } from './access';
import type { ErrorCode } from './errors';
import type { EventSource } from './event-stream';

/** The project in which a request acts, as the gate found it together with the caller's membership. */
export interface ProjectAccess {
  id: string;
  ownerUserId: string;
  role: Role;
  status: 'active' | 'archived';
  pausedAt: Date | null;
  pauseReason: string | null;
  /** `none`: no content of its runs is kept. */
  traceContentMode: 'full' | 'none';
}

/** What the gate makes of a credential for a route. */
export interface Admission {
  caller: Caller | null;
  project: ProjectAccess | null;
}

export interface Answer {
  status: number;
  /** Absent for an answer without a body. */
  body?: unknown;
  headers?: Record<string, string>;
  /** Answered as it is instead of a body, under its own content type; the route declares it under `media`. */
  file?: { type: string; bytes: Buffer };
  /** Answered frame by frame instead of a body; the route declares it under `streams`. */
  stream?: EventSource;
}

type CallerOf<N extends Needs> = N extends { kind: 'none' } ? null : Caller;
type ProjectOf<N extends Needs> = N extends { kind: 'project' } ? ProjectAccess : null;
type ParsedOf<S> = S extends z.ZodType ? z.output<S> : Record<string, never>;

/** What a handler gets: parsed and typed input, who asks and where. */
export interface RouteInput<N extends Needs, P, Q, B> {
  caller: CallerOf<N>;
  project: ProjectOf<N>;
  params: ParsedOf<P>;
  query: ParsedOf<Q>;
  body: ParsedOf<B>;
  requestId: string;
  /** A request header, or undefined. */
  header: (name: string) => string | undefined;
}

interface RouteDefinition<N extends Needs, P, Q, B> {
  method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** Express syntax; `:project_id` is resolved by the gate; a literal colon is escaped. */
  path: string;
  /** Operation id, unique. */
  id: string;
  summary: string;
  needs: N;
  /** The operation's one name for audit, boundary policies and MCP, e.g. `agents:UpdateAgent`. */
  action: string;
  /** The code of an input refusal: platform areas `bad_request`, run-time resource areas `VALIDATION_FAILED`. */
  inputCode: 'bad_request' | 'VALIDATION_FAILED';
  /** Path parameters but `project_id`; one that does not parse is 404. */
  params?: P;
  query?: Q;
  body?: B;
  bodyBytesMax?: number;
  /** Takes a bearer where one comes, though it needs none; the handler reads the header. */
  bearerOptional?: true;
  /** Asks for a sign-in code or shows one: such calls of one address are counted together. */
  signIn?: true;
  /** Schema of the body of each success status; null = no body. */
  answers: Record<number, z.ZodType | null>;
  /** The 200 answer is a file of this type, and no JSON. */
  media?: string;
  /** Not an operation of the contract document: part of one that stands there. */
  unlisted?: boolean;
  /** The 200 answer may be a stream of events instead of its body: what the frames are. */
  streams?: string;
  /** Codes beside those every route shares. */
  fails?: ErrorCode[];
  /** Exempt from logs of one line a request. */
  quiet?: boolean;
  /** A change of a project that is also taken while the project is archived. */
  whileArchived?: boolean;
  handle: (input: RouteInput<N, P, Q, B>) => Promise<Answer> | Answer;
}

const archived: ErrorCode = 'PROJECT_ARCHIVED';

/** Input of a route whose schemas are not known here. */
export interface AnyInput {
  caller: Caller | null;
  project: ProjectAccess | null;
  params: unknown;
  query: unknown;
  body: unknown;
  requestId: string;
  header: (name: string) => string | undefined;
}

/** A route of any input type, as the application mounts it and the contract document lists it. */
export type Route = Omit<
  RouteDefinition<Needs, z.ZodType | undefined, z.ZodType | undefined, z.ZodType | undefined>,
  'handle'
> & {
  handle: (input: AnyInput) => Promise<Answer> | Answer;
};

/** Mails of local mode. */
export const MAILBOX_PATH = '/dev/mailbox';

/** Operations, and the mailbox of local mode: asked by machines, and never refused for being asked often. */
export const UNLIMITED_PATHS: ReadonlySet<string> = new Set(['/health', '/openapi.json', MAILBOX_PATH]);

/**
 * Whether a route is refused while its project is archived: every one that may write or start something, but those that say
 * otherwise. Spec: Projects, archived.
 */
export const closedWhileArchived = ({
  method,
  needs,
  whileArchived,
}: Pick<Route, 'method' | 'needs' | 'whileArchived'>): boolean =>
  needs.kind === 'project' && method !== 'get' && whileArchived !== true;

/** Declares one endpoint: mounted on Express, and listed into the OpenAPI document, from the same schemas. */
export function route<
  const N extends Needs,
  P extends z.ZodType | undefined = undefined,
  Q extends z.ZodType | undefined = undefined,
  B extends z.ZodType | undefined = undefined,
>(definition: RouteDefinition<N, P, Q, B>): Route {
  // The handler's input type is narrower than the common one; `mount` gives it exactly what its own schemas parsed.
  const made = definition as unknown as Route;
  return closedWhileArchived(made) ? { ...made, fails: [...new Set([...(made.fails ?? []), archived])] } : made;
}
