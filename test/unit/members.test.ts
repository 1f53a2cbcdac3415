import '../support/contract-settings';
import { secondsUntilRoom } from '../../src/api/core/sliding-windows';
import type { Bucket } from '../../src/api/core/sliding-windows';
import { invitationMailText } from '../../src/api/members/invitation-mail';
import { presentMember } from '../../src/api/members/present';

describe('a sliding window', () => {
  const nowSecond = 1_000;
  const at = (second: number, count = 1): Bucket => ({ second, count });

  test.each<[string, Bucket[], number | null]>([
    ['nothing counted', [], null],
    ['one place left', [at(950), at(951)], null],
    ['full, the oldest leaves first', [at(950), at(960), at(1_000)], 50],
    ['full within one second', [at(1_000, 3)], 100],
    ['full, the oldest about to leave', [at(901), at(990, 2)], 1],
    ['the oldest has just left', [at(900), at(990, 2)], null],
    ['more than a limit that was lowered', [at(920, 2), at(940, 2), at(960)], 40],
  ])('%s', (_case, buckets, expected) => {
    expect(secondsUntilRoom(buckets, { nowSecond, windowSeconds: 100, limit: 3 })).toBe(expected);
  });
});

describe('the mail of an invitation', () => {
  const baseUrl = 'https://api.example.test';

  test('says who added the address to which project, and where to sign in', () => {
    const { subject, text } = invitationMailText({ inviter: 'Ann Owner', projectName: 'Support', baseUrl });
    expect(subject).toBe('You were added to the project "Support"');
    expect(text).toContain('Ann Owner added this address to the project "Support".');
    expect(text).toContain('Sign in with this address to use it: https://api.example.test\n');
  });

  test('does without an inviter that is gone', () => {
    expect(invitationMailText({ inviter: null, projectName: 'Support', baseUrl }).text).toMatch(/^Somebody added/);
  });

  test.each([
    ['line breaks', 'a\r\nBcc: x@y.test\n\nClick: here', 'a Bcc: x@y.test Click: here'],
    ['what turns the direction of text', 'a\u202Eb', 'a b'],
    ['length', 'x'.repeat(255), `${'x'.repeat(254)}…`],
    ['length of characters beyond the first plane', '😀'.repeat(255), `${'😀'.repeat(254)}…`],
  ])('takes from the names %s', (_case, name, shown) => {
    const { subject, text } = invitationMailText({ inviter: name, projectName: name, baseUrl });
    expect(subject).toBe(`You were added to the project "${shown}"`);
    expect(text.split('\n')[0]).toBe(`${shown} added this address to the project "${shown}".`);
  });
});

describe('the status of a member', () => {
  const now = new Date('2026-03-01T12:00:00.000Z');
  const member = {
    id: 'pmem_0000000000000000',
    projectId: 'proj_0000000000000000',
    email: 'ana@acme.test',
    role: 'member' as const,
    invitedByUserId: null,
    runSeenAt: null,
    createdAt: now,
    updatedAt: now,
  };

  test.each([
    ['waits for the first sign-in', null, null, 'pending'],
    ['has an account that never signed in', 'user_0000000000000000', { name: null, emailVerified: false }, 'pending'],
    ['has signed in', 'user_0000000000000000', { name: 'Ana', emailVerified: true }, 'active'],
    ['had an account that is gone', 'user_0000000000000000', null, null],
  ])('who %s', (_case, userId, account, status) => {
    const shown = presentMember({ member: { ...member, userId }, account });
    expect([shown.status, shown.user_id, shown.name]).toEqual([status, userId, account?.name ?? null]);
  });
});
