/** `npm start`: engines, API and worker in one terminal, until Ctrl-C. */
import { serveLocal } from './local/serve';

const { DATA_DIR: given } = process.env;

void serveLocal({ dataDir: given === undefined || given === '' ? '.data' : given });
