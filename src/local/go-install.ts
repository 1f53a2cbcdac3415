import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { nameOfCli } from './downloads';

/** What the Go tool chain builds: a command of a module, and the checksum of that module at that version. */
export interface GoModule {
  path: string;
  command: string;
  version: string;
  /** As `go mod download -json` names it, `h1:…`. */
  sum: string;
}

const BUILD_MS = 20 * 60_000;

/**
 * The module and all it needs are checked by Go against its checksum database; settings of this machine that would leave that
 * out are not passed on. The program needs no C compiler.
 */
function checkedEnvironment(folder: string): NodeJS.ProcessEnv {
  const { GOSUMDB: given = 'off', ...environment } = process.env;
  // An empty variable would let Go look into its own file of settings; this host is nobody's.
  const none = 'none.invalid';
  return {
    ...environment,
    GOSUMDB: given === 'off' || given === '' ? 'sum.golang.org' : given,
    GONOSUMDB: none,
    GOPRIVATE: none,
    GOINSECURE: none,
    GOFLAGS: '-buildvcs=false',
    CGO_ENABLED: '0',
    GOBIN: folder,
  };
}

async function runGo(go: string, args: string[], folder: string): Promise<string> {
  return await new Promise<string>((resolve, reject) => {
    const options = { cwd: folder, env: checkedEnvironment(folder), timeout: BUILD_MS, maxBuffer: 16 * 1024 * 1024 };
    execFile(go, args, options, (error, out, errorOut) => {
      if (error === null) resolve(out);
      else if (error.code === 'ENOENT') reject(new Error('go is not installed'));
      else reject(new Error(errorOut.trim().split('\n').at(-1) ?? error.message));
    });
  });
}

/**
 * Builds a program from its published source into `folder`, which is empty, and gives its path. Takes minutes. The module must
 * have the known checksum; what it depends on is checked by Go.
 * @throws when there is no `go`, the module is another one, or the build fails
 */
export async function goInstall(go: string, module: GoModule, folder: string): Promise<string> {
  const text = await runGo(go, ['mod', 'download', '-json', `${module.path}@v${module.version}`], folder);
  const { Sum: sum } = JSON.parse(text) as { Sum?: unknown };
  if (sum !== module.sum) throw new Error(`the checksum of ${module.path} is ${String(sum)}, not ${module.sum}`);
  await runGo(go, ['install', `${module.path}/${module.command}@v${module.version}`], folder);
  return join(folder, nameOfCli());
}
