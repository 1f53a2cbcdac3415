import type {
  LanguageModelV3Content,
  LanguageModelV3FinishReason,
  LanguageModelV3StreamPart,
  LanguageModelV3Usage,
} from '@ai-sdk/provider';

/** What a model call gave, streamed or not. */
export interface ModelAnswer {
  content: LanguageModelV3Content[];
  finishReason: LanguageModelV3FinishReason;
  usage: LanguageModelV3Usage;
}

/** Puts a streamed answer together again, part by part. Pure. */
export class AnswerParts {
  readonly #content: LanguageModelV3Content[] = [];
  readonly #open = new Map<string, { type: 'text' | 'reasoning'; text: string }>();
  #end: Pick<ModelAnswer, 'finishReason' | 'usage'> | undefined;

  /** Takes the next part; answers the text that it adds. @throws what an error part holds */
  add(part: LanguageModelV3StreamPart): string {
    if (part.type === 'error') throw part.error;
    if (part.type === 'finish') this.#end = { finishReason: part.finishReason, usage: part.usage };
    if (part.type === 'tool-call') this.#content.push(part);
    if (part.type === 'text-start') this.#begin('text', part.id);
    if (part.type === 'reasoning-start') this.#begin('reasoning', part.id);
    if (part.type === 'reasoning-delta') this.#begin('reasoning', part.id).text += part.delta;
    if (part.type !== 'text-delta') return '';
    this.#begin('text', part.id).text += part.delta;
    return part.delta;
  }

  /** The whole answer; a stream that ends early has an error part. */
  answer(): ModelAnswer {
    if (this.#end === undefined) throw new Error('the stream has no end');
    return { content: this.#content, ...this.#end };
  }

  /** The part of that id, which stands in the content where it began. */
  #begin(type: 'text' | 'reasoning', id: string): { type: 'text' | 'reasoning'; text: string } {
    const key = `${type} ${id}`;
    const known = this.#open.get(key);
    if (known !== undefined) return known;
    const part = { type, text: '' };
    this.#open.set(key, part);
    this.#content.push(part);
    return part;
  }
}
