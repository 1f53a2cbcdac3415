/** Words between a property's name and its value: "city is Paris", "limit = 5". */
const connectives = '(?:\\s*[:=]\\s*|\\s+(?:is|of|as|to|for|equals|named|called)\\s+|\\s+)';
/** Words that are not a value by themselves, so "city and date" gives the city no value. */
const notValues = new Set([
  'and',
  'or',
  'the',
  'a',
  'an',
  'with',
  'for',
  'to',
  'in',
  'on',
  'by',
  'please',
  'then',
  'of',
]);
const quotedText = /"([^"]{1,2000})"|“([^”]{1,2000})”|`([^`]{1,2000})`|(?<!\w)'([^']{1,2000})'(?!\w)/g;
const plainNumber = /(?<![\w.-])-?\d{1,15}(?:\.\d{1,10})?(?![\w-]|\.\d)/g;
const leadingFiller = /^(?:\s|[:,;.-]|(?:for|in|of|with|to|about|on|at|and|from|using|the|tool|please)\b)+/i;
const trailingFiller = /(?:\s|[,;.!?-]|\b(?:and|then|or|please)\b)+$/i;

export interface NameMatch {
  name: string;
  /** Offsets of the name's mention. */
  start: number;
  end: number;
}

/** The words of an identifier: `orderId`, `order-id` and `order_id` are all `order`, `id`. */
export function wordsOf(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '');
}

function patternOf(words: string[]): string {
  return words.join('[-_\\s]*');
}

/** Where the names are mentioned, `-`, `_` and spaces alike; a name inside a longer mentioned one does not count. */
export function findNames(text: string, names: string[]): NameMatch[] {
  const found: NameMatch[] = [];
  for (const name of [...names].sort((one, other) => other.length - one.length)) {
    const words = wordsOf(name);
    if (words.length === 0) continue;
    for (const match of text.matchAll(new RegExp(`(?<![a-z0-9_])${patternOf(words)}(?![a-z0-9_])`, 'gi'))) {
      const mention = { name, start: match.index, end: match.index + match[0].length };
      if (!found.some((other) => mention.start < other.end && other.start < mention.end)) found.push(mention);
    }
  }
  return found.sort((one, other) => one.start - other.start);
}

/**
 * What a message says about the arguments of one tool: first the part after the tool's name, then the whole message.
 * Numbers and quoted texts are used once each, in their order.
 */
export class Hints {
  readonly #texts: string[];
  readonly #taken = new Set<string>();

  constructor(
    readonly message: string,
    tool: NameMatch | undefined,
    mentions: NameMatch[] = [],
  ) {
    // Mentioned tool names are blanked out: `get_order` is not a value of the property `order`.
    const masked = mentions.reduce(
      (text, { start, end }) => text.slice(0, start) + ' '.repeat(end - start) + text.slice(end),
      message,
    );
    const next = mentions.find((mention) => tool !== undefined && mention.start >= tool.end);
    this.#texts = tool === undefined ? [masked] : [masked.slice(tool.end, next?.start), masked];
  }

  /** The word or quoted text after the property's name (`order_id` also by `order`). */
  valueAfter(property: string): string | undefined {
    const words = wordsOf(property);
    const forms = words.length > 1 && words.at(-1) === 'id' ? [words, words.slice(0, -1)] : [words];
    for (const form of forms.filter((candidate) => candidate.length > 0)) {
      const value = this.#first((text) => wordAfter(text, patternOf(form)));
      if (value !== undefined) return value;
    }
    return undefined;
  }

  nextNumber(): string | undefined {
    return this.#take((text) => [...text.matchAll(plainNumber)].map((match) => match[0]));
  }

  nextQuoted(): string | undefined {
    return this.#take((text) => [...text.matchAll(quotedText)].map(quotedPart));
  }

  /** The first quoted text or word that passes. */
  find(passes: (candidate: string) => boolean): string | undefined {
    return this.#first((text) => [...[...text.matchAll(quotedText)].map(quotedPart), ...tokensOf(text)].find(passes));
  }

  /** What stands after the tool's name, without the small words around it; undefined when nothing is left. */
  remainder(): string | undefined {
    const rest = (this.#texts.length > 1 ? (this.#texts[0] ?? '') : '')
      .replace(leadingFiller, '')
      .replace(trailingFiller, '');
    return rest === '' ? undefined : rest;
  }

  #first(find: (text: string) => string | undefined): string | undefined {
    for (const text of this.#texts) {
      const value = find(text);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  #take(all: (text: string) => string[]): string | undefined {
    const value = this.#first((text) => all(text).find((candidate) => !this.#taken.has(candidate)));
    if (value !== undefined) this.#taken.add(value);
    return value;
  }
}

function quotedPart(match: RegExpMatchArray): string {
  return match[1] ?? match[2] ?? match[3] ?? match[4] ?? '';
}

function tokensOf(text: string): string[] {
  return text
    .split(/\s+/)
    .map((token) => token.replace(/^["'“”‘’([{<`]+|["'“”‘’)\]}>`,.;:!?]+$/g, ''))
    .filter((token) => token !== '' && token.length <= 200);
}

function wordAfter(text: string, name: string): string | undefined {
  const match = new RegExp(`(?<![a-z0-9_])${name}(?![a-z0-9_])${connectives}(\\S[^]*)`, 'i').exec(text);
  const rest = match?.[1];
  if (rest === undefined) return undefined;
  const quoted = [...rest.matchAll(quotedText)][0];
  if (quoted?.index === 0) return quotedPart(quoted);
  const word = tokensOf(rest)[0];
  return word === undefined || notValues.has(word.toLowerCase()) ? undefined : word;
}
