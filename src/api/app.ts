import express from 'express';
import type { Express } from 'express';
import helmet from 'helmet';
import { areas } from './areas';
import { mountRoutes } from './core/mount';
import { admit } from './gate';

/** The application: middleware, every area's routes, the error handler. */
export function createApp(): Express {
  const app = express();
  app.disable('x-powered-by');
  app.set('etag', false); // Agents state their version as ETag; a hash of the body would contradict it.
  app.use(helmet());
  mountRoutes(app, areas, admit);
  return app;
}
