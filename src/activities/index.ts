import type { Mailer } from '../api/auth/mailer';
import { agentDeletionSweep } from '../api/agents/deletion';
import { generationSweep } from '../api/generations/runs';
import { invitationSweep } from '../api/members/invitations';
import { agentActivities } from './agents.activities';
import { billingActivities } from './billing.activities';
import { generationActivities } from './generations.activities';
import { mailActivities } from './mail.activities';
import { reencryptionActivities } from './reencryption.activities';
import { sweepActivities } from './sweeps.activities';
import { traceActivities } from './traces.activities';
import { webhookActivities } from './webhooks.activities';

export interface ActivityDependencies {
  mailer: Mailer;
}

/** Every activity of the service, in one flat space of names. */
export const createActivities = ({ mailer }: ActivityDependencies) => ({
  ...agentActivities(),
  ...billingActivities(),
  ...generationActivities(),
  ...mailActivities({ mailer }),
  ...webhookActivities(),
  ...reencryptionActivities(),
  ...traceActivities(),
  ...sweepActivities({ kinds: [generationSweep, agentDeletionSweep, invitationSweep] }),
});

export type Activities = ReturnType<typeof createActivities>;
