import { createServer } from 'node:http';
import { inTurn, median, percentile } from './measure.mjs';
import { QUESTION, openStage } from './stage.mjs';

const BEFORE_FIRST_MS = 20;

/** A provider that notes when it wrote its first delta; the run's key tells whose it was. */
async function startProvider() {
  const wrote = new Map();
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      setTimeout(() => {
        wrote.set(String(request.headers['idempotency-key']).split(':')[0], performance.now());
        const delta = { id: 'c', object: 'chat.completion.chunk', created: 0, model: 'm' };
        const frame = (choice) => `data: ${JSON.stringify({ ...delta, choices: [{ index: 0, ...choice }] })}\n\n`;
        response.write(frame({ delta: { role: 'assistant', content: 'Fine' } }));
        response.end(`${frame({ delta: {}, finish_reason: 'stop' })}data: [DONE]\n\n`);
      }, BEFORE_FIRST_MS);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, wrote, close: () => server.close() };
}

/** How much later than the provider's first delta the caller's first frame comes. */
export async function stream({ rounds, count = 60 }) {
  const stage = await openStage();
  const provider = await startProvider();
  stage.opened.push(() => provider.close());
  try {
    const agent = await stage.makeAgent('streamed', { baseUrl: provider.url });
    const path = `${stage.at}/agents/${agent}/generate`;
    const added = async () => {
      const response = await stage.api.request('POST', path, { ...QUESTION, stream: true });
      let first;
      for await (const chunk of response.body) if (chunk.length > 0) first ??= performance.now();
      return first - provider.wrote.get(response.headers['x-svc-generation-id']);
    };
    const all = [];
    const figures = await inTurn(rounds, {
      p95: async () => {
        const taken = [];
        for (let index = 0; index < count; index++) taken.push(await added());
        all.push(...taken);
        return percentile(taken, 0.95);
      },
    });
    return [
      {
        figure: 'first streamed byte after the provider’s, p95',
        ours: `${percentile(all, 0.95).toFixed(1)} ms`,
        baseline: `p50 ${median(all).toFixed(1)} ms`,
        value: { median: median(figures.p95), least: Math.min(...figures.p95), greatest: Math.max(...figures.p95) },
        bar: { most: 10, unit: 'ms' },
      },
    ];
  } finally {
    await stage.end();
  }
}
