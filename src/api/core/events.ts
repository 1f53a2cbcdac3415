/** The public events: the whole catalog that a webhook can subscribe to. Pure data. */
export const eventTypes = [
  'conversation.started',
  'message.received',
  'generation.completed',
  'generation.failed',
  'usage.threshold_crossed',
  'project.paused',
  'project.resumed',
  'decision.completed',
  'decision.failed',
] as const;

export type EventType = (typeof eventTypes)[number];

/** A change that is told to webhook endpoints; `data` is the resource as its own API returns it. */
export interface NewEvent {
  projectId: string;
  type: EventType;
  resourceType: string;
  resourceId: string;
  data: Record<string, unknown>;
  /** Ids of the trigger firings that led here; empty where there is none. */
  causation?: string[];
}

/** Body that is posted to endpoints. */
export interface EventEnvelope {
  id: string;
  type: EventType;
  project_id: string;
  resource_type: string;
  resource_id: string;
  data: Record<string, unknown>;
  created_at: string;
}
