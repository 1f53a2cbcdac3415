import type { WriteStream } from 'node:tty';
import { ApiError } from '@agent-platform/sdk';

/** A step of the demo that did not do what it shows; the message is one line that names the step and the reason. */
class StepFailed extends Error {}

/** Throws when what the demo claims does not hold. @throws Error saying what was seen instead */
export function holds(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}

/** What was refused and why, with the first of the fields that the refusal names. */
function refusalOf({ call, status, code, message, details }: ApiError): string {
  const [first] = Array.isArray(details) ? details : [];
  const isSaid = first === undefined || message.includes(first.message);
  const field = isSaid ? '' : ` (${first.path}: ${first.message})`;
  return `${call ?? 'The run'} answered ${String(status)} ${code}: ${message}${field}`.replace(/\s*\n\s*/g, ' ').trim();
}

/** An error in one line, with its cause: `fetch failed` alone says nothing. */
export function inOneLine(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof ApiError) return refusalOf(error);
  const cause = error.cause instanceof Error && error.cause.message !== '' ? `: ${error.cause.message}` : '';
  return `${error.message}${cause}`.replace(/\s*\n\s*/g, ' ').trim();
}

type Style = 'bold' | 'dim' | 'green';

const ESCAPES: Record<Style, string> = { bold: '1', dim: '2', green: '32' };
const NAME_COLUMN = 14;

/** Prints the numbered steps of the demo. Colours go to terminals only, and not where NO_COLOR asks for none. */
export class Report {
  private number = 0;
  private readonly colours: boolean;

  constructor(private readonly out: Pick<WriteStream, 'write' | 'isTTY'>) {
    this.colours = out.isTTY && (process.env['NO_COLOR'] ?? '') === '';
  }

  /**
   * Announces a step, runs it and prints how long it took.
   * @throws StepFailed
   */
  async step<Result>(title: string, work: () => Promise<Result>): Promise<Result> {
    const number = String(++this.number);
    const begun = performance.now();
    this.line(`\n${this.styled('bold', `${number}. ${title}`)}`);
    let result: Result;
    try {
      result = await work();
    } catch (error) {
      throw new StepFailed(`Step ${number} (${title}) failed: ${inOneLine(error)}`);
    }
    this.line(this.styled('green', `   done in ${String(Math.round(performance.now() - begun))} ms`));
    return result;
  }

  /** A value that the step made or saw, under its name. */
  fact(name: string, value: string): void {
    this.line(`   ${this.styled('dim', name.padEnd(NAME_COLUMN))} ${value}`);
  }

  /** Begins the line of a value that comes in pieces; `line('')` ends it. */
  begin(name: string): void {
    this.out.write(`   ${this.styled('dim', name.padEnd(NAME_COLUMN))} `);
  }

  /** The next piece, printed as it comes. */
  piece(text: string): void {
    this.out.write(text.replace(/\s+/g, ' '));
  }

  /** What happens now, in words. */
  say(text: string): void {
    this.line(`   ${text}`);
  }

  heading(text: string): void {
    this.line(`\n${this.styled('bold', text)}`);
  }

  line(text: string): void {
    this.out.write(`${text}\n`);
  }

  private styled(style: Style, text: string): string {
    return this.colours ? `\u001b[${ESCAPES[style]}m${text}\u001b[0m` : text;
  }
}
