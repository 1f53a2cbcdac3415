import type { LanguageModelV3, LanguageModelV3StreamPart } from '@ai-sdk/provider';
import { InvalidResponseDataError } from '@ai-sdk/provider';
import { z } from 'zod';
import type { Vendor } from './vendors';

/** What went wrong in a call, with what must not be told about it; `cause` is what the vendor's package threw or sent. */
export class ProviderCallError extends Error {
  constructor(
    cause: unknown,
    /** Texts of the credential that was used. */
    readonly hidden: readonly string[],
  ) {
    super('the call of a model failed', { cause });
  }
}

/** An error that a vendor sent inside of a stream that began well. */
export class StreamedError extends Error {
  constructor(
    /** The vendor's own name or number for it; null when it has none. */
    readonly kind: string | null,
    readonly said: string,
  ) {
    super(said);
  }
}

/** A stream that ended without saying why the model stopped: the rest of it is lost. */
export class CutStreamError extends Error {}

const GoogleChunk = z.object({
  error: z.object({ code: z.number().optional(), status: z.string().optional(), message: z.string().optional() }),
});
const Exception = z.looseObject({ message: z.string().optional() });
const EXCEPTION = /Exception$/;
/** How one of the packages says that a stream ended early. */
const UNFINISHED = /ended without a finish reason/;

/** These packages tell an error of a stream without its name, or not at all; the raw chunk before it has it. */
const READS_RAW: readonly Vendor[] = ['bedrock', 'google', 'vertex'];

/**
 * The same model, whose every failure is a `ProviderCallError`: thrown, or as an error part of a stream. An error inside
 * a stream has the vendor's name for it, and a stream without an ending is one that broke off.
 */
export function watched(model: LanguageModelV3, vendor: Vendor, hidden: readonly string[]): LanguageModelV3 {
  const fails = (error: unknown): never => {
    throw new ProviderCallError(error, hidden);
  };
  return {
    specificationVersion: model.specificationVersion,
    provider: model.provider,
    modelId: model.modelId,
    supportedUrls: model.supportedUrls,
    doGenerate: async (options) => Promise.resolve(model.doGenerate(options)).catch(fails),
    doStream: async (options) => {
      const raw = READS_RAW.includes(vendor);
      const asked = raw ? { ...options, includeRawChunks: true } : options;
      const result = await Promise.resolve(model.doStream(asked)).catch(fails);
      const passesRaw = !raw || options.includeRawChunks === true;
      return { ...result, stream: result.stream.pipeThrough(watcher({ passesRaw, hidden })) };
    },
  };
}

function watcher({ passesRaw, hidden }: { passesRaw: boolean; hidden: readonly string[] }) {
  let ended = false;
  /** Only the first reason is told: what follows an error in a stream follows from it, and would look like an ending. */
  const fail = (controller: TransformStreamDefaultController<LanguageModelV3StreamPart>, error: unknown): void => {
    if (!ended) controller.enqueue({ type: 'error', error: new ProviderCallError(error, hidden) });
    ended = true;
  };
  return new TransformStream<LanguageModelV3StreamPart, LanguageModelV3StreamPart>({
    transform(part, controller) {
      if (part.type === 'raw') {
        const named = namedError(part.rawValue);
        if (named !== null) fail(controller, named);
        if (passesRaw) controller.enqueue(part);
        return;
      }
      if (part.type === 'error') {
        fail(controller, plainError(part.error));
        return;
      }
      if (part.type !== 'finish') {
        controller.enqueue(part);
        return;
      }
      if (endsUnsaid(part)) fail(controller, new CutStreamError('the stream ended early'));
      if (!ended) controller.enqueue(part);
      ended = true;
    },
    flush(controller) {
      fail(controller, new CutStreamError('the stream ended early'));
    },
  });
}

/** The packages fill in this reason where the vendor sent none. */
const endsUnsaid = ({ finishReason }: { finishReason: { unified: string; raw: string | undefined } }): boolean =>
  finishReason.unified === 'other' && finishReason.raw === undefined;

/** The error of a raw chunk: `{throttlingException: {message}}` of Bedrock, `{error: {code, message}}` of Google. */
function namedError(chunk: unknown): StreamedError | null {
  const google = GoogleChunk.safeParse(chunk);
  if (google.success) {
    const { code, status, message } = google.data.error;
    return new StreamedError(code === undefined ? (status ?? 'error') : String(code), message ?? 'no message');
  }
  if (typeof chunk !== 'object' || chunk === null) return null;
  const [name, value] = Object.entries(chunk).find(([key, body]) => EXCEPTION.test(key) && body != null) ?? [];
  if (name === undefined) return null;
  return new StreamedError(name, Exception.safeParse(value).data?.message ?? 'no message');
}

const Plain = z.object({
  message: z.string(),
  type: z.string().nullish(),
  code: z.union([z.string(), z.number()]).nullish(),
});

/** Error objects of the OpenAI and Anthropic wires; anything else stays what it is. */
function plainError(error: unknown): unknown {
  if (InvalidResponseDataError.isInstance(error) && UNFINISHED.test(error.message))
    return new CutStreamError(error.message);
  if (error instanceof Error) return error;
  if (typeof error === 'string') return new StreamedError(null, error);
  const plain = Plain.safeParse(error);
  if (!plain.success) return error;
  const { message, type, code } = plain.data;
  return new StreamedError(typeof code === 'number' ? String(code) : (code ?? type ?? null), message);
}
