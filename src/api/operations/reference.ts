import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { notFound } from '../core/errors';
import type { Answer } from '../core/route';

/** One file of the page: its content never changes under its name. */
interface Asset {
  type: string;
  bytes: Buffer;
}

interface Reference {
  page: Buffer;
  assets: ReadonlyMap<string, Asset>;
}

const JAVASCRIPT = 'text/javascript; charset=utf-8';
const STYLE = 'text/css; charset=utf-8';
const KEPT_SECONDS = 31_536_000;
const NAME_DIGITS = 12;

/** Nothing from another host, no inline script or style, no frame around the page; the viewer's icons are data URLs in its style. */
const POLICY = [
  "default-src 'self'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * Starts the viewer on this service's own contract document. Requests go to where the page came from, whatever address the
 * document gives: the policy allows no other. No credential is kept, nobody else is asked whether the document is valid,
 * and the address of the page cannot name another document.
 */
const start = (base: string): string => `'use strict';
(async () => {
  const spec = await (await fetch(${JSON.stringify(`${base}/openapi.json`)})).json();
  spec.servers = [{ url: location.origin + ${JSON.stringify(base)} }];
  SwaggerUIBundle({
    spec,
    dom_id: '#reference',
    deepLinking: true,
    docExpansion: 'list',
    defaultModelsExpandDepth: 0,
    filter: true,
    persistAuthorization: false,
    queryConfigEnabled: false,
    validatorUrl: null,
  });
})();
`;

const page = (base: string, names: { style: string; viewer: string; start: string }): string => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Agent platform API</title>
    <link rel="icon" href="data:,">
    <link rel="stylesheet" href="${base}/docs/${names.style}">
  </head>
  <body>
    <div id="reference"></div>
    <noscript>The contract document is at <a href="${base}/openapi.json">${base}/openapi.json</a>.</noscript>
    <script src="${base}/docs/${names.viewer}"></script>
    <script src="${base}/docs/${names.start}"></script>
  </body>
</html>
`;

/** `viewer.0123456789ab.js`: a changed file has another name, so that each may be kept for good. */
function nameOf(stem: string, extension: string, bytes: Buffer): string {
  return `${stem}.${createHash('sha256').update(bytes).digest('hex').slice(0, NAME_DIGITS)}.${extension}`;
}

/**
 * Puts the page and its three files together: the style and the bundle of the viewer as they are installed, and the start of
 * it. The bundle's other layout, with a field for any address, is left out, and with it the file that holds it.
 * @param publicBaseUrl its path stands before every address of the page: a proxy may serve the service below one
 */
async function assemble(publicBaseUrl: string): Promise<Reference> {
  const folder = dirname(require.resolve('swagger-ui-dist/package.json'));
  const base = new URL(publicBaseUrl).pathname.replace(/\/+$/, '');
  const style = await readFile(join(folder, 'swagger-ui.css'));
  const viewer = await readFile(join(folder, 'swagger-ui-bundle.js'));
  const starter = Buffer.from(start(base));
  const names = {
    style: nameOf('viewer', 'css', style),
    viewer: nameOf('viewer', 'js', viewer),
    start: nameOf('start', 'js', starter),
  };
  return {
    page: Buffer.from(page(base, names)),
    assets: new Map([
      [names.style, { type: STYLE, bytes: style }],
      [names.viewer, { type: JAVASCRIPT, bytes: viewer }],
      [names.start, { type: JAVASCRIPT, bytes: starter }],
    ]),
  };
}

/**
 * The browsable reference of the contract document, which loads nothing from another host. Read once a process, at the
 * first request; asking again is safe. Spec: Limits, contract document.
 */
export class ReferencePage {
  private made: Promise<Reference> | undefined;

  constructor(private readonly publicBaseUrl: () => string) {}

  /** The page itself, which names its files and is therefore asked for anew each time. */
  async page(): Promise<Answer> {
    const { page: bytes } = await this.read();
    return {
      status: 200,
      headers: { 'Cache-Control': 'no-cache', 'Content-Security-Policy': POLICY },
      file: { type: 'text/html; charset=utf-8', bytes },
    };
  }

  /** One of its files, which may be kept for good. @throws not_found for every other name */
  async asset(name: string): Promise<Answer> {
    const asset = (await this.read()).assets.get(name);
    if (asset === undefined) throw notFound();
    const headers = { 'Cache-Control': `public, max-age=${KEPT_SECONDS}, immutable` };
    return { status: 200, headers, file: asset };
  }

  private read(): Promise<Reference> {
    this.made ??= assemble(this.publicBaseUrl()).catch((error: unknown) => {
      this.made = undefined; // The next one tries again.
      throw error;
    });
    return this.made;
  }
}
