import { accountCredential, anyCredential } from '../core/access';
import { route } from '../core/route';
import type { Route } from '../core/route';
import { presentUser } from './present';
import { UserOut, UserUpdate } from './schemas';
import { getUser, updateUser } from './service';

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
  route({
    method: 'patch',
    path: '/v1/users/me',
    id: 'updateMe',
    summary: 'Change the own account',
    needs: accountCredential,
    action: 'users:UpdateMe',
    inputCode: 'bad_request',
    body: UserUpdate,
    answers: { 200: UserOut },
    handle: async ({ caller, body }) => {
      const user = await updateUser({ userId: caller.userId, name: body.name });
      return { status: 200, body: presentUser(user) };
    },
  }),
];
