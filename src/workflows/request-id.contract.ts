/** The header by which an activity is told the request that its run goes back to, for its log lines. */
export const REQUEST_ID_HEADER = 'request-id';
