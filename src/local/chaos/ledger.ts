/** A submission of tool outputs and what was answered to it; null where no answer came at all. */
export interface SubmissionNote {
  generationId: string;
  callId: string;
  key: string;
  status: number | null;
  code: string | null;
  /** Whether another submission of the same pause was sent, or the run was cancelled meanwhile. */
  rivalled: boolean;
}

/** What the callers were told, as far as the rows must agree with it. */
export class Ledger {
  /** Runs that were accepted, with the kind of load each belongs to. */
  readonly accepted = new Map<string, string>();
  readonly submissions: SubmissionNote[] = [];
  /** Runs whose cancellation was answered with 200. */
  readonly cancelled = new Set<string>();
  /** Runs that were seen settled, with that status. */
  readonly settled = new Map<string, string>();
  /** Requests that were given up without an answer. */
  unanswered = 0;
  readonly streams = { whole: 0, failed: 0, cut: 0 };
  readonly byKind = new Map<string, number>();

  accept(id: string, kind: string): void {
    if (this.accepted.has(id)) return;
    this.accepted.set(id, kind);
    this.byKind.set(kind, (this.byKind.get(kind) ?? 0) + 1);
  }

  /** Notes a status that an answer showed; only settled ones are final. */
  see(id: string, status: string): void {
    if ((status === 'completed' || status === 'failed') && !this.settled.has(id)) this.settled.set(id, status);
  }
}
