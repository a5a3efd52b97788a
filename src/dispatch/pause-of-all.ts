import { allDelivery } from '../core/registry.ts'
import { Registry } from '../store/registry.ts'
import type { RegistryStore } from '../store/registry-store.ts'

/** `isOwn`: this process alone was started with it, while the others deliver. */
export type Pause = Readonly<{ paused: boolean; isOwn: boolean }>

/**
 * Whether all delivery is paused. What a person says holds for all members and survives restarts. A process that was
 * started with a pause of its own keeps that until a person says something.
 */
export class PauseOfAll {
  readonly #settings: Registry<'setting'>
  readonly #apply: (pause: Pause) => void
  #startedPaused: boolean
  #applied: Pause = { paused: false, isOwn: false }

  /** `apply` is called with every change, whichever member made it. */
  constructor(store: RegistryStore, startedPaused: boolean, apply: (pause: Pause) => void) {
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
    const [paused, isOwn] = [this.paused, this.#startedPaused]
    if (paused === this.#applied.paused && isOwn === this.#applied.isOwn) return
    this.#applied = { paused, isOwn }
    this.#apply(this.#applied)
  }
}
