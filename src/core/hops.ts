/** Counts how many Posthorns an event has passed through, so that a loop of them ends. Set by Posthorn alone. */
export const hopsHeader = 'posthorn-hops'

/** The count that a request names. What is not a count is not one of ours, and counts as none. */
export function hopsIn(value: string | readonly string[] | undefined): number {
  return typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : 0
}

/** How many Posthorns an event had passed when it arrived; kept among its headers. */
export function hopsOf(headers: Readonly<Record<string, string>>): number {
  const kept = headers[hopsHeader]
  return kept === undefined ? 0 : hopsIn(kept)
}
