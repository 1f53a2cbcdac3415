import { adminRoutes } from './admin/routes';
import { agentRoutes } from './agents/routes';
import { apiKeyRoutes } from './api-keys/routes';
import { authRoutes } from './auth/routes';
import type { Route } from './core/route';
import { devRoutes } from './dev/routes';
import { generationRoutes } from './generations/routes';
import { memberRoutes } from './members/routes';
import { operationsRoutes } from './operations/routes';
import { projectRoutes } from './projects/routes';
import { providerDetailRoutes } from './providers/detail-routes';
import { aiProviderRoutes } from './providers/routes';
import { secretRoutes } from './secrets/routes';
import { toolRoutes } from './tools/routes';
import { traceRoutes } from './traces/routes';
import { userRoutes } from './users/routes';
import { webhookRoutes } from './webhooks/routes';

/** Every area's routes: the one existing file that a new area edits. */
export const areas: Route[] = [
  ...operationsRoutes(() => areas),
  ...authRoutes,
  ...userRoutes,
  ...adminRoutes,
  ...apiKeyRoutes,
  ...projectRoutes,
  ...memberRoutes,
  ...secretRoutes,
  ...aiProviderRoutes,
  ...providerDetailRoutes,
  ...toolRoutes,
  ...agentRoutes,
  ...generationRoutes,
  ...traceRoutes,
  ...webhookRoutes,
  ...devRoutes(),
];
