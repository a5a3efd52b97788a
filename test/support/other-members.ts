import type { Endpoint } from '../../src/core/endpoint.ts'
import type { OtherHubs } from '../../src/dispatch/other-hubs.ts'

/** The hubs of other members, as they are told here. */
export class OtherMembers implements OtherHubs {
  readonly #served = new Set<string>()
  readonly #listeners: ((relayId: string) => void)[] = []

  serves({ id }: Endpoint): boolean {
    return this.#served.has(id)
  }

  onOtherHub(listener: (relayId: string) => void): void {
    this.#listeners.push(listener)
  }

  come({ id }: Endpoint): void {
    this.#served.add(id)
    for (const listener of this.#listeners) listener('rly_1')
  }

  leave({ id }: Endpoint): void {
    this.#served.delete(id)
    for (const listener of this.#listeners) listener('rly_1')
  }
}
