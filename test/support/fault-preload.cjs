/**
 * Loaded into API and worker before the service (`NODE_OPTIONS=--require`). A file named like a fault point in FAULT_FOLDER
 * holds whoever comes to that point, and another file says that somebody is held there; both are the test's to remove.
 */
const { existsSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');
const { setTimeout: wait } = require('node:timers/promises');

const folder = process.env.FAULT_FOLDER;

if (folder !== undefined) {
  globalThis.svcFaultPoint = async (name) => {
    const armed = join(folder, name);
    if (!existsSync(armed)) return;
    writeFileSync(join(folder, `${name}.held`), String(process.pid));
    while (existsSync(armed)) await wait(10);
  };
}
