import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { inLanes, samples } from './measure.mjs';
import { openStage } from './stage.mjs';

const LANES = 20;
/** As many as a worker keeps, so that both figures are taken with a full cache. */
const CACHED = 600;
/** Of what a process gives back, the system learns a moment later. */
const COLLECTIONS = 2;
const COLLECTED_MS = 5_000;
const COLLECT = `--require ${fileURLToPath(new URL('./collect-garbage.cjs', import.meta.url))}`;

const rssMiB = (pid) => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

/** Memory of API and worker with many runs paused, beside what they take with few; each time once their garbage is collected. */
export async function paused({ count = 10_000 }) {
  const stage = await openStage({ production: false, env: { NODE_OPTIONS: COLLECT } });
  try {
    const { api, at, local } = stage;
    const tool = { type: 'client', name: 'ask', parameters: { type: 'object' } };
    const { id } = await api.call('POST', `${at}/tools`, tool);
    const agent = await stage.makeAgent('asker', { tools: [id] });
    local.modelServer.script('asker', [{ toolCalls: [{ name: 'ask', args: {} }] }]);
    const pauseOne = () => stage.generate(agent, {}, '?wait=true');
    const measured = async () => {
      await samples(20, () => api.call('GET', `${at}/generations?limit=1`));
      const of = local.processes().filter(({ name }) => /^(api|worker)-/.test(name));
      for (let done = 0; done < COLLECTIONS; done++) {
        for (const { pid } of of) process.kill(pid, 'SIGUSR2');
        await pause(COLLECTED_MS);
      }
      return of.reduce((sum, { pid }) => sum + rssMiB(pid), 0);
    };
    await inLanes(LANES, CACHED, pauseOne);
    const before = await measured();
    await inLanes(LANES, count - CACHED, pauseOne);
    const after = await measured();
    return [
      {
        figure: `memory of API and worker with ${count.toLocaleString('en')} paused runs`,
        ours: `${after.toFixed(0)} MiB`,
        baseline: `${before.toFixed(0)} MiB with ${CACHED}`,
        ratio: { median: after / before, least: after / before, greatest: after / before },
        bar: { most: 1.1 },
      },
    ];
  } finally {
    await stage.end();
  }
}
