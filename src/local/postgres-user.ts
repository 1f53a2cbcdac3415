import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { dirname } from 'node:path';

/** A user and group of this machine by number. */
export interface SystemUser {
  uid: number;
  gid: number;
}

async function output(command: string, args: string[]): Promise<string | null> {
  return await new Promise((resolve) => {
    execFile(command, args, { timeout: 10_000 }, (error, out) => {
      resolve(error === null ? out.trim() : null);
    });
  });
}

async function userNamed(name: string): Promise<SystemUser | null> {
  const [uid, gid] = await Promise.all([output('id', ['-u', name]), output('id', ['-g', name])]);
  return uid === null || gid === null ? null : { uid: Number(uid), gid: Number(gid) };
}

async function createUser(): Promise<void> {
  if ((await output('useradd', ['--version'])) !== null || (await output('useradd', ['--help'])) !== null) {
    await output('groupadd', ['postgres']);
    await output('useradd', ['-g', 'postgres', 'postgres']);
    return;
  }
  // The smaller tools of Alpine and BusyBox.
  await output('addgroup', ['-S', 'postgres']);
  await output('adduser', ['-S', '-D', '-H', '-G', 'postgres', 'postgres']);
}

/**
 * The user PostgreSQL runs as. It refuses to run as root, so root uses the user `postgres`, made when missing, else `nobody`.
 * Everybody else runs it as himself: undefined. Repeating is safe.
 */
export async function databaseUser(): Promise<SystemUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const existing = await userNamed('postgres');
  if (existing !== null) return existing;
  await createUser();
  const user = (await userNamed('postgres')) ?? (await userNamed('nobody'));
  if (user === null) {
    throw new Error('PostgreSQL does not run as root, and no user `postgres` could be made: run `useradd postgres`.');
  }
  return user;
}

const READ = 4;
const PASS = 1;

/** True when `user` may pass every folder on the way to `path` and, with `read`, read `path` itself. */
export function isOpenTo(user: SystemUser, path: string, last: 'read' | 'pass' = 'read'): boolean {
  let wanted = (last === 'read' ? READ : 0) | (statSync(path).isDirectory() ? PASS : 0);
  for (let at = path; ; at = dirname(at)) {
    const { mode, uid, gid } = statSync(at);
    const shift = uid === user.uid ? 6 : gid === user.gid ? 3 : 0;
    if (((mode >> shift) & wanted) !== wanted) return false;
    if (dirname(at) === at) return true;
    wanted = PASS;
  }
}
