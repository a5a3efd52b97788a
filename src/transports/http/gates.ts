/**
 * Lets a limited number of requests per origin through to undici, whose own queue forgets nothing: a request whose time
 * is over would stay in it until a connection is there. What waits here leaves without a trace.
 */
export type Gates<T> = Readonly<{
  /** Starts the item at once, or as soon as one of the same origin leaves. */
  enter(origin: string, item: T): void
  /** To be called once for every item that was started, when it is done. */
  leave(origin: string): void
  /** Forgets an item that has not been started. */
  drop(origin: string, item: T): void
}>

type Gate<T> = { inside: number; isOpening: boolean; readonly waiting: Set<T> }

export function openGates<T>(insideMax: number, start: (item: T) => void): Gates<T> {
  const gates = new Map<string, Gate<T>>()

  function gateOf(origin: string): Gate<T> {
    const known = gates.get(origin)
    if (known !== undefined) return known
    const gate: Gate<T> = { inside: 0, isOpening: false, waiting: new Set() }
    gates.set(origin, gate)
    return gate
  }

  /** A loop, not a recursion: an item may fail and leave while it is being started. */
  function open(gate: Gate<T>): void {
    if (gate.isOpening) return
    gate.isOpening = true
    for (const item of gate.waiting) {
      if (gate.inside >= insideMax) break
      gate.waiting.delete(item)
      gate.inside++
      start(item)
    }
    gate.isOpening = false
  }

  function forgetIfIdle(origin: string, gate: Gate<T>): void {
    if (gate.inside === 0 && gate.waiting.size === 0) gates.delete(origin)
  }

  return {
    enter(origin, item) {
      const gate = gateOf(origin)
      if (gate.inside >= insideMax || gate.isOpening) {
        gate.waiting.add(item)
        return
      }
      gate.inside++
      start(item)
    },
    leave(origin) {
      const gate = gateOf(origin)
      gate.inside--
      if (gate.waiting.size > 0) open(gate)
      if (!gate.isOpening) forgetIfIdle(origin, gate)
    },
    drop(origin, item) {
      const gate = gates.get(origin)
      if (gate?.waiting.delete(item) === true && !gate.isOpening) forgetIfIdle(origin, gate)
    },
  }
}
