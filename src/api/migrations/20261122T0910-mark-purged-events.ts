import { runSql } from './step';
import type { Step } from './step';

/** A delivery that settles sees by its event alone that the content it tells of was removed meanwhile. */
export const up = ({ context }: Step): Promise<void> =>
  runSql(
    context,
    `
  alter table events add column purged boolean not null default false;
  update events e set purged = true from generations g
  where g.project_id = e.project_id and g.id = e.resource_id and g.content_redacted_at is not null
    and g.content_redacted_by_principal_id is distinct from 'zero_retention';`,
  );

export const down = ({ context }: Step): Promise<void> => runSql(context, 'alter table events drop column purged;');
