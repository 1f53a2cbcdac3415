import type { Mailer } from '../api/auth/mailer';
import { agentDeletionSweep } from '../api/agents/deletion';
import { generationSweep } from '../api/generations/runs';
import { invitationSweep } from '../api/members/invitations';
import { projectDeletionSweep } from '../api/projects/deletion';
import { projectPauseSweep } from '../api/projects/pausing';
import { billingActivities } from './billing.activities';
import { deletionActivities } from './deletions.activities';
import { generationActivities } from './generations.activities';
import { mailActivities } from './mail.activities';
import { projectActivities } from './projects.activities';
import { reencryptionActivities } from './reencryption.activities';
import { sweepActivities } from './sweeps.activities';
import { traceActivities } from './traces.activities';
import { webhookActivities } from './webhooks.activities';

export interface ActivityDependencies {
  mailer: Mailer;
}

/** Every activity of the service, in one flat space of names. */
export const createActivities = ({ mailer }: ActivityDependencies) => ({
  ...billingActivities(),
  ...deletionActivities(),
  ...generationActivities(),
  ...mailActivities({ mailer }),
  ...webhookActivities(),
  ...reencryptionActivities(),
  ...projectActivities({ held: [] }),
  ...traceActivities(),
  ...sweepActivities({
    kinds: [generationSweep, agentDeletionSweep, invitationSweep, projectDeletionSweep, projectPauseSweep],
  }),
});

export type Activities = ReturnType<typeof createActivities>;
