import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import SECONDS from '../support/seconds.json';

interface TestFile {
  project: string;
  seconds: number;
}

const { inOrder } = jest.requireActual<{ inOrder: (files: TestFile[], runners: number) => TestFile[] }>(
  '../support/sequencer.cjs',
);

const e2e = (seconds: number): TestFile => ({ project: 'e2e', seconds });
const integration = (seconds: number): TestFile => ({ project: 'integration', seconds });

test('every file in the table of seconds is there', () => {
  const missing = Object.keys(SECONDS).filter((path) => !existsSync(resolve(__dirname, '../..', path)));
  expect(missing).toEqual([]);
});

test('of three runners two take files that start services, the longest first, and one takes the others', () => {
  const files = [integration(3), e2e(10), integration(20), e2e(50), e2e(40), integration(30)];
  expect(inOrder(files, 3)).toEqual([e2e(50), e2e(40), integration(30), integration(20), e2e(10), integration(3)]);
});

test.each([1, 2, 3])('every file is taken once by %i runners, also when only one kind is left', (runners) => {
  const kinds = [e2e(5), e2e(1), e2e(7), integration(2)];
  for (const files of [kinds, kinds.slice(0, 3), kinds.slice(3), []]) {
    expect(new Set(inOrder(files, runners))).toEqual(new Set(files));
    expect(inOrder(files, runners)).toHaveLength(files.length);
  }
});
