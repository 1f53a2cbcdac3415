import type { components } from './schema';

type Schemas = components['schemas'];

export type Agent = Schemas['Agent'];
export type Tool = Schemas['Tool'];
/** A run as its record stands. */
export type Generation = Schemas['Generation'];
/** What a waited run gave, or what it asks of its caller. */
export type GenerationResult = Schemas['GenerationResult'];
export type RequiredAction = Schemas['RequiredAction'];
/** A call of a client tool that waits for its output. */
export type PendingToolCall = RequiredAction['tool_calls'][number];
export type ToolOutput = Schemas['SubmitToolOutputs']['tool_outputs'][number];
/** What an agent is asked. The helpers decide on `stream`, and take the key as an option. */
export type GenerateRequest = Omit<Schemas['Generate'], 'stream' | 'idempotency_key'>;

/** The agent that is to run. */
export interface AgentTarget {
  projectId: string;
  agentId: string;
}

/** A run that exists. */
export interface GenerationTarget {
  projectId: string;
  generationId: string;
}

type Envelope = Schemas['EventEnvelope'];
type GenerationEventType = 'generation.completed' | 'generation.failed';

/** A verified event; the events of runs carry the record of the run. */
export type WebhookEvent =
  | (Omit<Envelope, 'type' | 'data'> & { type: GenerationEventType; data: Generation })
  | (Omit<Envelope, 'type'> & { type: Exclude<Envelope['type'], GenerationEventType> });
