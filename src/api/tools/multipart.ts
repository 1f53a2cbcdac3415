import { randomText } from '../core/random';
import { FillError, argumentText } from './templates';

/** Pure: the multipart body of an http tool's call. Spec: Tools, http. */

/** `{content_type, filename, data_base64}` and nothing else. */
interface FileArgument {
  content_type: string;
  filename: string;
  data_base64: string;
}

const FILE_KEYS = ['content_type', 'data_base64', 'filename'];
const CONTENT_TYPE = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+\/[\x20-\x7e]+$/;

const isFile = (value: unknown): value is FileArgument =>
  typeof value === 'object' &&
  value !== null &&
  Object.keys(value).sort().join() === FILE_KEYS.join() &&
  Object.values(value).every((entry) => typeof entry === 'string');

/** A name inside a header's quotes, as browsers write it. */
const quoted = (text: string): string =>
  `"${text.replaceAll('\r', '%0D').replaceAll('\n', '%0A').replaceAll('"', '%22')}"`;

/**
 * The arguments as a form: scalars become fields, files parts of their own, anything else a field of JSON text.
 * @throws FillError naming an argument whose file cannot be written
 */
export function multipartBody(args: Record<string, unknown>): { body: Buffer; contentType: string } {
  const boundary = `svc-${randomText(32)}`;
  const parts = Object.entries(args).map(([name, value]) =>
    isFile(value) ? filePart(name, value) : part(`name=${quoted(name)}`, null, Buffer.from(argumentText(value))),
  );
  const body = Buffer.concat([
    ...parts.flatMap((bytes) => [Buffer.from(`--${boundary}\r\n`), bytes]),
    Buffer.from(`--${boundary}--\r\n`),
  ]);
  return { body, contentType: `multipart/form-data; boundary=${boundary}` };
}

function filePart(name: string, { content_type: type, filename, data_base64: data }: FileArgument): Buffer {
  const content = Buffer.from(data, 'base64');
  // The decoder skips what it does not know: only a text that it would write itself is one.
  if (unpadded(content.toString('base64')) !== unpadded(data))
    throw new FillError(`the argument ${name} holds a file whose data_base64 is no base64`);
  if (!CONTENT_TYPE.test(type)) throw new FillError(`the argument ${name} holds a file whose content_type is none`);
  return part(`name=${quoted(name)}; filename=${quoted(filename)}`, type, content);
}

const unpadded = (text: string): string =>
  text.slice(0, text.endsWith('==') ? -2 : text.endsWith('=') ? -1 : undefined);

function part(disposition: string, type: string | null, content: Buffer): Buffer {
  const head = `Content-Disposition: form-data; ${disposition}\r\n${type === null ? '' : `Content-Type: ${type}\r\n`}`;
  return Buffer.concat([Buffer.from(`${head}\r\n`), content, Buffer.from('\r\n')]);
}
