import type { Attributes } from 'sequelize';
import type { Role } from '../core/access';
import type { Project } from './models';

/** A project as one of its members sees it. */
export interface SeenProject {
  project: Attributes<Project>;
  role: Role;
}
