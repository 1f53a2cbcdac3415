import { anyCredential } from '../core/access';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { presentUser } from './present';
import { UserOut } from './schemas';
import { getUser } from './service';

export const userRoutes: Route[] = [
  route({
    method: 'get',
    path: '/v1/users/me',
    id: 'getMe',
    summary: 'The account that the credential resolves to',
    needs: anyCredential,
    action: 'users:GetMe',
    inputCode: 'bad_request',
    answers: { 200: UserOut },
    handle: async ({ caller }) => ({ status: 200, body: presentUser(await getUser(caller.userId)) }),
  }),
];
