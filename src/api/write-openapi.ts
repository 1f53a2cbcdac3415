import { areas } from './areas';
import { openApiDocument } from './core/openapi';
import type { Route } from './core/route';

/** The committed document is about no deployment in particular: it names the address of `npm start`. */
const SERVER_URL = 'http://localhost:3000';

/** Local mode alone has them, so that the document would differ with the mode of the process that writes it. */
const isOfDevelopment = ({ action }: Route): boolean => action.startsWith('dev:');

/**
 * The contract document as it is kept in `docs/openapi.json`: the same text at every call, for the routes of this build.
 * Loading this module needs settings, as every area does; `scripts/openapi.mjs` gives it some and writes the file.
 */
export function contractText(): string {
  const routes = areas.filter((route) => !isOfDevelopment(route));
  return `${JSON.stringify(openApiDocument(routes, SERVER_URL), null, 2)}\n`;
}
