import { allDelivery } from '../core/registry.ts'
import { Registry } from '../store/registry.ts'
import type { RegistryStore } from '../store/registry-store.ts'

/**
 * Whether all delivery is paused. What a person says holds for all members and survives restarts. A process that was
 * started with a pause of its own keeps that until a person says something.
 */
export class PauseOfAll {
  readonly #settings: Registry<'setting'>
  readonly #apply: (paused: boolean) => void
  #startedPaused: boolean
  #applied = false

  /** `apply` is called with every change, whichever member made it. */
  constructor(store: RegistryStore, startedPaused: boolean, apply: (paused: boolean) => void) {
    this.#startedPaused = startedPaused
    this.#apply = apply
    this.#settings = new Registry(store, 'setting', ({ kind }) => {
      if (kind === 'put') this.#startedPaused = false
    })
  }

  async load(): Promise<void> {
    await this.#settings.load()
    this.#applyChange()
  }

  /** Takes over what other members have changed. */
  async refresh(): Promise<void> {
    await this.#settings.refresh()
    this.#applyChange()
  }

  get paused(): boolean {
    return this.#startedPaused || (this.#settings.get(allDelivery)?.paused ?? false)
  }

  /** The other members follow within a moment. */
  async set(paused: boolean): Promise<void> {
    await this.#settings.put({ id: allDelivery, paused })
    this.#applyChange()
  }

  #applyChange(): void {
    if (this.paused === this.#applied) return
    this.#applied = this.paused
    this.#apply(this.paused)
  }
}
