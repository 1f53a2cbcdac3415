/** Pure rules of the usage cycle: the calendar month in UTC, for every account alike. Spec: Plans, cycle. */

const pad = (number: number): string => String(number).padStart(2, '0');

/** The month that a moment lies in, as `2026-11`. */
export const monthOf = (moment: Date): string => `${String(moment.getUTCFullYear())}-${pad(moment.getUTCMonth() + 1)}`;

/** The first moment of a month. */
export const monthStart = (month: string): Date => new Date(`${month}-01T00:00:00.000Z`);

/** The first moment of the month after the one that a moment lies in. */
export const nextMonthStart = (moment: Date): Date =>
  new Date(Date.UTC(moment.getUTCFullYear(), moment.getUTCMonth() + 1, 1));

/** The month before. */
export const monthBefore = (month: string): string => monthOf(new Date(monthStart(month).getTime() - 1));
