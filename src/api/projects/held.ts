import type { Tx } from '../core/db';
import { notFound } from '../core/errors';
import { Project } from './models';

/** The project's row, held against other changes of it; rows that refer to it are still written. @throws not_found */
export async function heldProject(projectId: string, tx: Tx): Promise<Project> {
  const lock = tx.LOCK.NO_KEY_UPDATE;
  const project = await Project.findOne({ where: { id: projectId, deletedAt: null }, transaction: tx, lock });
  if (project === null) throw notFound();
  return project;
}
