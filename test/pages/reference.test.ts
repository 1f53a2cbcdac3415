import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';
import type { Browser, Page } from 'playwright-core';
import { useService } from '../support/app';

const service = useService();
const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

let browser: Browser | undefined;
let page: Page;
const asked: string[] = [];
const complaints: string[] = [];

beforeAll(async () => {
  const program = process.env['CHROMIUM'] ?? CHROMIUM.find((path) => existsSync(path));
  if (program === undefined) throw new Error('No Chromium: install it, or set CHROMIUM to the path of one.');
  browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
  page = await browser.newPage();
  page.on('request', (request) => asked.push(request.url()));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  await page.goto(`${service.baseUrl}/docs`);
  await page.waitForSelector('.opblock');
}, 60_000);

afterAll(async () => {
  await browser?.close();
});

const foreign = (): string[] =>
  asked.filter((url) => !url.startsWith(`${service.baseUrl}/`) && !url.startsWith('data:'));

async function operationIds(): Promise<string[]> {
  const document = (await (await fetch(`${service.baseUrl}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { operationId: string; tags: [string] }>>;
  };
  return Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId, tags: [tag] }) => `operations-${tag}-${operationId}`),
  );
}

test('the page shows every operation of the contract document', async () => {
  const shown = await page.locator('.opblock').evaluateAll((blocks) => blocks.map(({ id }) => id));
  expect(shown.sort()).toEqual((await operationIds()).sort());
});

test('an operation opens with its fields, and is called at this service itself', async () => {
  const health = page.locator('[id="operations-operations-getHealth"]');
  await health.locator('.opblock-summary-control').click();
  await health.getByRole('button', { name: 'Try it out' }).click();
  await health.getByRole('button', { name: 'Execute' }).click();
  await health.locator('.live-responses-table .response').first().waitFor();
  expect(await health.locator('.live-responses-table').innerText()).toContain('"status": "ok"');
  expect(asked).toContain(`${service.baseUrl}/health`);
  const agents = page.locator('[id="operations-agents-createAgent"]');
  await agents.locator('.opblock-summary-control').click();
  await agents.locator('.model-example, .body-param').first().waitFor();
});

test('no request left for another host, and the policy stopped nothing', () => {
  expect(foreign()).toEqual([]);
  expect(complaints).toEqual([]);
});

test('the address of the page cannot name another document', async () => {
  await page.goto(`${service.baseUrl}/docs`);
  const own = await page.title();
  const reply = await page.goto(`${service.baseUrl}/docs?url=https://elsewhere.test/openapi.json`);
  expect([own, reply?.status()]).toEqual(['Agent platform API', 400]);
  expect(foreign()).toEqual([]);
});
