import type { ApiClient } from './client';
import type { Service } from './app';

export type GuardedRoute = readonly [method: Exclude<keyof ApiClient, 'sdk'>, path: string, body?: object];

const call = (client: ApiClient, [method, path, body]: GuardedRoute, projectId: string) => {
  const full = `/v1/projects/${projectId}${path}`;
  return method === 'get' || method === 'delete' ? client[method](full) : client[method](full, body ?? {});
};

/** The refusals that every route of a project makes before it looks at its input: credential, membership, scope. */
export function describeGuard(service: Service, routes: readonly GuardedRoute[]): void {
  describe.each(routes.map((route) => ({ name: `${route[0]} ${route[1]}`, route })))('$name', ({ route }) => {
    test('answers 401 without a credential', async () => {
      const { id } = await service.project(await service.signedIn());
      const answer = await call(service.client(), route, id);
      expect([answer.status, answer.body.error.code]).toEqual([401, 'unauthorized']);
    });

    test('answers 404 to someone who is not a member', async () => {
      const { id } = await service.project(await service.signedIn());
      const stranger = await service.signedIn();
      const answer = await call(service.client(stranger.token), route, id);
      expect([answer.status, answer.body.error.code]).toEqual([404, 'not_found']);
    });

    test('answers 403 to a key of another project', async () => {
      const owner = await service.signedIn();
      const { id } = await service.project(owner);
      const other = await service.project(owner);
      const key = await service.apiKey(owner, { projectId: other.id });
      const answer = await call(service.client(key), route, id);
      expect([answer.status, answer.body.error.code]).toEqual([403, 'access_denied']);
    });
  });
}
