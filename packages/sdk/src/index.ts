export { createClient } from './client';
export type { Call, CallOptions, CallResult, Calls, PathWith } from './calls';
export type { Client, ClientOptions } from './client';
export {
  ApiError,
  ConnectionError,
  StreamError,
  ToolLoopError,
  WaitTimeoutError,
  WebhookVerificationError,
  unwrap,
} from './errors';
export type { ErrorCode } from './errors';
export type { Generations, PickUpOptions, RunOptions, StreamOptions, WaitOptions } from './generations';
export type { ListItem, ListOptions, ListPath } from './paging';
export type { RetryPolicy } from './retry';
export { errorStatus } from './schema';
export type { components, operations, paths } from './schema';
export type { GenerationStream, StreamEnd } from './stream';
export type { ToolContext, ToolHandler, ToolHandlers, ToolLoopOptions } from './tool-loop';
export type {
  Agent,
  AgentTarget,
  GenerateRequest,
  Generation,
  GenerationResult,
  GenerationTarget,
  PendingToolCall,
  RequiredAction,
  Tool,
  ToolOutput,
  WebhookEvent,
} from './types';
export { verifyWebhook } from './webhooks';
export type { HeadersLike, VerifyOptions } from './webhooks';
