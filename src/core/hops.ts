/** Counts how many Posthorns an event has passed through, so that a loop of them ends. Set by Posthorn alone. */
export const hopsHeader = 'posthorn-hops'

/** The count that a request names, the largest of several. What is not a count is not one of ours, and counts as none. */
export function hopsIn(value: string | readonly string[] | undefined): number {
  if (typeof value !== 'string') return 0
  const counts = value.split(',').map((text) => (/^ *\d{1,9} *$/.test(text) ? Number(text) : 0))
  return Math.max(...counts)
}

/** How many Posthorns an event had passed when it arrived; kept among its headers. */
export function hopsOf(headers: Readonly<Record<string, string>>): number {
  const kept = headers[hopsHeader]
  return kept === undefined ? 0 : hopsIn(kept)
}
