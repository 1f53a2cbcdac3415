/** Runs once after all test files: ends what the setup started; its folder goes with it. */
export default async function teardown() {
  await globalThis.__engines?.stop();
}
