/** How long the edge waits for a hub, and for what. */
export type Timings = Readonly<{
  /** From the upgrade to the hello. */
  helloMsMax: number
  pingEveryMs: number
  /** A link on which nothing came for this long is dead, whatever the network says. */
  silenceMsMax: number
  /** How often all links are looked at, by one timer. */
  sweepEveryMs: number
  /** The hub has the endpoint's timeout for itself; this much later its answer is not waited for any more. */
  ackGraceMs: number
  /** What a hub gives back untried at its turn stays here for this long: a hub that takes nothing must not keep us busy. */
  givenBackMs: number
  /** From our closing message to the end of the connection. */
  closeMsMax: number
}>

const secondMs = 1_000

export const timings: Timings = {
  helloMsMax: 10 * secondMs,
  pingEveryMs: 10 * secondMs,
  silenceMsMax: 25 * secondMs,
  sweepEveryMs: secondMs,
  ackGraceMs: 10 * secondMs,
  givenBackMs: secondMs,
  closeMsMax: 2 * secondMs,
}
