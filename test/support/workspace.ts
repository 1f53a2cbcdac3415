import { startModelServer } from '../../src/local/model-server';
import type { ModelServer } from '../../src/local/model-server';
import { useService } from './app';
import type { Person, Service } from './app';
import { buildAgent, workspace } from './builders';
import type { Workspace } from './builders';
import { startReceiver } from './receiver';
import type { Receiver } from './receiver';

/** How long a thing lives: as long as the tests of the file, or made anew for each of them. */
type Lifetime = 'file' | 'test';

interface WorkspaceOptions {
  /** Default `file`; with `test` the owner keeps, the project is another one. */
  project?: Lifetime;
  receiver?: Lifetime;
  /** What the project is made with beside its name. */
  settings?: object;
}

/** A project of one owner on a running service, with the vendor of its models and a receiver for tools and webhooks. */
export interface UsedWorkspace {
  service: Service;
  owner: Person;
  space: Workspace;
  server: ModelServer;
  receiver: Receiver;
  /** The full path of a route of the project. */
  at: (path: string) => string;
  /** An agent with a model of its own that plays these replies. */
  agentSaying: (replies: object[], given?: object) => Promise<{ id: string; version: number }>;
}

/**
 * Starts the service with its workers, a model server and a receiver before the tests of a file, and ends them after it.
 * The objects are there at once, so that a file can take them apart; they are filled in before the first test.
 */
export function useWorkspace({ project = 'file', receiver = 'file', settings }: WorkspaceOptions = {}): UsedWorkspace {
  const used: UsedWorkspace = {
    service: useService({ worker: true }),
    owner: {} as Person,
    space: {} as Workspace,
    server: {} as ModelServer,
    receiver: {} as Receiver,
    at: (path) => `${used.space.at}${path}`,
    agentSaying: (replies, given = {}) => {
      models += 1;
      const model = `${used.space.model}-${String(models)}`;
      used.server.script(model, replies);
      return buildAgent(used.space, { model, ...given });
    },
  };
  let models = 0;
  const fill = {
    project: async () => Object.assign(used.space, await projectOf(used, settings)),
    receiver: async () => Object.assign(used.receiver, await startReceiver()),
  };
  beforeAll(async () => {
    Object.assign(used.server, await startModelServer({}));
    Object.assign(used.owner, await used.service.signedIn());
  });
  const first = { file: beforeAll, test: beforeEach };
  const last = { file: afterAll, test: afterEach };
  first[receiver](fill.receiver);
  first[project](fill.project);
  beforeEach(() => {
    used.server.script(used.space.model, []);
  });
  afterAll(() => used.server.close());
  last[receiver](() => used.receiver.close());
  return used;
}

async function projectOf({ service, owner, server }: UsedWorkspace, settings?: object): Promise<Workspace> {
  const api = service.client(owner.token);
  if (settings === undefined) return workspace(api, (await service.project(owner)).id, server.url);
  const { status, body } = await api.post('/v1/projects', { name: 'a project of the tests', ...settings });
  if (status !== 201) throw new Error(`expected 201, got ${String(status)}: ${JSON.stringify(body)}`);
  return workspace(api, body.id as string, server.url);
}
