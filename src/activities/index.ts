import type { Mailer } from '../api/auth/mailer';
import { generationSweep } from '../api/generations/runs';
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
  ...generationActivities(),
  ...mailActivities({ mailer }),
  ...webhookActivities(),
  ...reencryptionActivities(),
  ...traceActivities(),
  ...sweepActivities({ kinds: [generationSweep] }),
});

export type Activities = ReturnType<typeof createActivities>;
