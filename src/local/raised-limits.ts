/** Limits out of the way, for load and faults that are about something else: raised by their settings, never switched off. */
export const RAISED_LIMITS = {
  RATE_IP_LIMIT: '1000000000',
  RATE_AUTH_LIMIT: '1000000000',
  PLANS: JSON.stringify({ free: { projects: null, runs: null, retention_days: null } }),
};
