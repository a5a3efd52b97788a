import type { BodyBudget, BodyRoom } from './body-reader.ts'

/** What bodies of one source hold. */
type Held = { bytes: number; bodies: number; readonly byAddress: Map<string, number> }

/**
 * Divides a budget among sources, and what a source has among the addresses that send to it. Nobody has a fixed part: a
 * source may hold as much as is still free, and an address as much as is still free to its source. So one address holds
 * at most a third of the budget and one source at most half, and there is always room for the others. The only body of a
 * source is let in whenever there is room at all, or small budgets could not take large bodies.
 */
export class BodyShares {
  readonly #budget: BodyBudget
  readonly #held = new Map<string, Held>()

  constructor(budget: BodyBudget) {
    this.#budget = budget
  }

  /** The room for one body. */
  open(source: string, address: string): BodyRoom {
    let holds = false
    return {
      pace: this.#budget.pace,
      take: (bytes) => {
        const held = this.#held.get(source) ?? { bytes: 0, bodies: 0, byAddress: new Map() }
        if (held.bodies > (holds ? 1 : 0) && !this.#isFair(held, address, bytes)) return false
        if (!this.#budget.take(bytes)) return false
        if (!holds) held.bodies += 1
        holds = true
        held.bytes += bytes
        held.byAddress.set(address, (held.byAddress.get(address) ?? 0) + bytes)
        this.#held.set(source, held)
        return true
      },
      give: (bytes) => {
        this.#budget.give(bytes)
        if (holds) this.#give(source, address, bytes)
        holds = false
      },
    }
  }

  #isFair(held: Held, address: string, bytes: number): boolean {
    return (held.byAddress.get(address) ?? 0) + bytes <= this.#budget.free - held.bytes
  }

  #give(source: string, address: string, bytes: number): void {
    const held = this.#held.get(source)
    if (held === undefined) return
    held.bytes -= bytes
    held.bodies -= 1
    const left = (held.byAddress.get(address) ?? 0) - bytes
    if (left > 0) held.byAddress.set(address, left)
    else held.byAddress.delete(address)
    if (held.bodies === 0) this.#held.delete(source)
  }
}

const mapped = /^::ffff:(?=\d+\.)/i
const groupsOfNetwork = 4

/** Who an address belongs to: an IPv4 address is one client's, and of IPv6 one client has a whole /64. */
export function networkOf(address: string): string {
  const plain = address.replace(mapped, '')
  if (!plain.includes(':')) return plain
  const [head = '', tail] = plain.split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = Array<string>(Math.max(8 - before.length - after.length, 0)).fill('0')
  return [...before, ...zeros, ...after].slice(0, groupsOfNetwork).join(':')
}
