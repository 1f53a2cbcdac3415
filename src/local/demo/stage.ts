import type { Client } from '@agent-platform/sdk';
import type { Receiver } from '../receiver';
import type { Local } from '../supervisor';
import type { Report } from './report';

/** A vendor's account to use in place of the local model server. */
export interface VendorAccount {
  apiKey: string;
  model: string;
  /** Null = the vendor's own address. */
  baseUrl: string | null;
}

/** What is there before the first call of the API. */
export interface Stage {
  report: Report;
  local: Local;
  /** Answers the agent's http tool. */
  orders: Receiver;
  /** Takes the webhook's deliveries. */
  hooks: Receiver;
  /** Null: the local model server answers. */
  vendor: VendorAccount | null;
  /** Where the engine keeps the runs. */
  namespace: string;
  /** How long the engine waits for a sign of life of a call before it makes it again. */
  heartbeatSeconds: number;
}

/** A signed-in person's project and the key that is used from then on. */
export interface Account {
  api: Client;
  email: string;
  apiKey: string;
  projectId: string;
  /** `/v1/projects/{project_id}` */
  at: string;
}

/** Everything the runs need. */
export interface Scene extends Stage, Account {
  agentId: string;
  model: string;
  webhook: { id: string; secret: string };
}

/** Where a person looks at a run of the engine: its page, or what to search for where there is no UI. */
export function runLink({ local, namespace }: Stage, id: string): string {
  if (local.temporalUiUrl === null) return `workflow ${id} in namespace ${namespace} of ${local.temporalAddress}`;
  return `${local.temporalUiUrl}/namespaces/${encodeURIComponent(namespace)}/workflows/${id}`;
}
