import { createReadStream, createWriteStream } from 'node:fs';
import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw } from 'node:zlib';

interface Entry {
  method: number;
  compressedBytes: number;
  headerOffset: number;
}

const END_SIGNATURE = 0x06054b50;
const ENTRY_SIGNATURE = 0x02014b50;
const END_BYTES = 22;
const COMMENT_BYTES_MAX = 0xffff;
const DEFLATED = 8;

async function readAt(file: FileHandle, offset: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.alloc(bytes);
  const { bytesRead } = await file.read(buffer, 0, bytes, offset);
  return buffer.subarray(0, bytesRead);
}

async function readDirectory(file: FileHandle): Promise<Buffer> {
  const { size } = await file.stat();
  const tailBytes = Math.min(size, END_BYTES + COMMENT_BYTES_MAX);
  const tail = await readAt(file, size - tailBytes, tailBytes);
  for (let at = tail.length - END_BYTES; at >= 0; at--) {
    if (tail.readUInt32LE(at) === END_SIGNATURE) {
      return await readAt(file, tail.readUInt32LE(at + 16), tail.readUInt32LE(at + 12));
    }
  }
  throw new Error('not a zip file');
}

function findEntry(directory: Buffer, nameEnd: string): Entry {
  for (let at = 0; at + 46 <= directory.length && directory.readUInt32LE(at) === ENTRY_SIGNATURE;) {
    const nameBytes = directory.readUInt16LE(at + 28);
    const name = directory.toString('utf8', at + 46, at + 46 + nameBytes);
    if (name.endsWith(nameEnd)) {
      return {
        method: directory.readUInt16LE(at + 10),
        compressedBytes: directory.readUInt32LE(at + 20),
        headerOffset: directory.readUInt32LE(at + 42),
      };
    }
    at += 46 + nameBytes + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  throw new Error(`the zip file holds no ${nameEnd}`);
}

/**
 * Writes the first entry whose name ends in `nameEnd` to `target`. Wheels are plain zip files: no encryption, no 64-bit sizes.
 * @throws when the file is no zip file, or has no such entry
 */
export async function extractFromZip(archive: string, nameEnd: string, target: string): Promise<void> {
  const file = await open(archive, 'r');
  let entry: Entry;
  let start: number;
  try {
    entry = findEntry(await readDirectory(file), nameEnd);
    const header = await readAt(file, entry.headerOffset, 30);
    start = entry.headerOffset + 30 + header.readUInt16LE(26) + header.readUInt16LE(28);
  } finally {
    await file.close();
  }
  const bytes = createReadStream(archive, { start, end: start + entry.compressedBytes - 1 });
  const out = createWriteStream(target, { mode: 0o755 });
  if (entry.method === DEFLATED) await pipeline(bytes, createInflateRaw(), out);
  else await pipeline(bytes, out);
}
