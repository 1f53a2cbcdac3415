import { DefaultLogger, Runtime } from '@temporalio/worker';
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { createApp } from '../../src/api/app';
import { flushKeyUse } from '../../src/api/auth/service';
import { starts } from '../../src/api/core/starts';
import { signSessionToken } from '../../src/api/auth/tokens';
import { config } from '../../src/api/core/config';
import { closeDatabase, query } from '../../src/api/core/db';
import { flushRequestCounts } from '../../src/api/core/ip-limit';
import { setLogLevel } from '../../src/api/core/log';
import { newId } from '../../src/api/core/ids';
import { closeOutbound } from '../../src/api/core/outbound';
import { randomText } from '../../src/api/core/random';
import { closePrograms } from '../../src/api/core/tenant-programs';
import { closeEngine } from '../../src/api/core/temporal';
import { answerUnreadable } from '../../src/api/core/unreadable';
import type { Mail } from '../../src/api/auth/mailer';
import { firstAttempts } from '../../src/api/webhooks/first-attempts';
import { streams } from '../../src/api/generations/streams';
import { StreamWorker } from '../../src/stream-worker';
import { startWorkers } from '../../src/workers';
import type { RunningWorkers } from '../../src/workers';
import { apiClient } from './client';
import type { ApiClient } from './client';
import { ensureDatabase } from './database';

export interface Person {
  token: string;
  userId: string;
  email: string;
}

/** The application over a real database and engine, with builders that fill in what a test does not care about. */
export interface Service {
  /** The listening server; supertest takes it too. */
  server: Server;
  baseUrl: string;
  /** Mails sent since the start of the file, oldest first (with a worker). */
  mails: Mail[];
  client: (credential?: string) => ApiClient;
  signedIn: (given?: { email?: string; roles?: string[] }) => Promise<Person>;
  project: (owner: Person, given?: { name?: string }) => Promise<{ id: string }>;
  member: (projectId: string, person: Person, role: 'admin' | 'member') => Promise<void>;
  apiKey: (owner: Person, given?: { projectId?: string }) => Promise<string>;
  stopWorkers: () => Promise<void>;
  startWorkers: () => Promise<void>;
}

const now = (): Date => new Date();

async function signedIn(given: { email?: string; roles?: string[] } = {}): Promise<Person> {
  const userId = newId('user');
  const familyId = newId('sessionFamily');
  const email = given.email ?? `${randomText(10).toLowerCase()}@people.test`;
  await query(
    `insert into users (id, email, name, email_verified, roles, created_at, updated_at) values ($1, $2, null, true, $3, $4, $4)`,
    [userId, email, given.roles ?? [], now()],
  );
  await query(`insert into session_families (id, user_id, expires_at, created_at) values ($1, $2, $3, $4)`, [
    familyId,
    userId,
    new Date(Date.now() + 86_400_000),
    now(),
  ]);
  const { token } = await signSessionToken({ userId, familyId });
  return { token, userId, email };
}

async function addMember(projectId: string, person: Person, role: 'owner' | 'admin' | 'member'): Promise<void> {
  await query(
    `insert into project_members (id, project_id, user_id, email, role, created_at, updated_at) values ($1, $2, $3, $4, $5, $6, $6)`,
    [newId('member'), projectId, person.userId, person.email, role, now()],
  );
}

async function addProject(owner: Person, given: { name?: string } = {}): Promise<{ id: string }> {
  const id = newId('project');
  await query(`insert into projects (id, owner_user_id, name, created_at, updated_at) values ($1, $2, $3, $4, $4)`, [
    id,
    owner.userId,
    given.name ?? 'a project of the tests',
    now(),
  ]);
  await addMember(id, owner, 'owner');
  return { id };
}

async function addApiKey(owner: Person, given: { projectId?: string } = {}): Promise<string> {
  const key = `svc_sk_${randomText(40)}`;
  await query(
    `insert into api_keys (id, user_id, project_id, name, key_hash, key_prefix, created_at, updated_at) values ($1, $2, $3, $4, $5, $6, $7, $7)`,
    [
      newId('apiKey'),
      owner.userId,
      given.projectId ?? null,
      'tests',
      createHash('sha256').update(key).digest(),
      key.slice(0, 12),
      now(),
    ],
  );
  return key;
}

/** Starts the application before the tests of a file and ends it after them; with `worker`, all workers in this process too. */
export function useService({ worker = false }: { worker?: boolean } = {}): Service {
  let workers: RunningWorkers | undefined;
  let steps: StreamWorker | undefined;
  const service: Service = {
    server: createServer(),
    baseUrl: '',
    mails: [],
    client: (credential) => apiClient(service.server, credential),
    signedIn,
    project: addProject,
    member: addMember,
    apiKey: addApiKey,
    startWorkers: async () => {
      steps = new StreamWorker();
      await streams.useWorker(steps);
      workers = await startWorkers({
        mailer: {
          send: (mail) => {
            service.mails.push(mail);
            return Promise.resolve();
          },
        },
      });
    },
    stopWorkers: async () => {
      await Promise.all([workers?.stop(), steps?.stop()]);
      workers = undefined;
      steps = undefined;
    },
  };
  beforeAll(async () => {
    setLogLevel(config().LOG_LEVEL);
    if (worker) Runtime.install({ logger: new DefaultLogger('ERROR') });
    await ensureDatabase();
    service.server.on('request', createApp());
    service.server.on('clientError', answerUnreadable);
    await new Promise<void>((resolve) => {
      service.server.listen(0, '127.0.0.1', resolve);
    });
    const address = service.server.address();
    service.baseUrl = `http://127.0.0.1:${typeof address === 'object' && address !== null ? String(address.port) : ''}`;
    if (worker) await service.startWorkers();
  }, 60_000);
  afterAll(async () => {
    await service.stopWorkers();
    service.server.closeAllConnections();
    await new Promise((resolve) => {
      service.server.close(resolve);
    });
    await Promise.all([starts.drain(), flushKeyUse(), firstAttempts.drain(1_000), flushRequestCounts()]);
    await Promise.all([closeEngine(), closeOutbound(), closePrograms()]);
    await closeDatabase();
  }, 60_000);
  return service;
}
