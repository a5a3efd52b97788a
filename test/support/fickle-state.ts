import { MemoryState } from '../../src/shared-state/memory-state.ts'
import type { SharedState, Swap, SwapAnswer } from '../../src/shared-state/shared-state.ts'

/** A shared state that can be flushed, refuse every call, lose its answers, or keep a call without one. */
export class FickleState implements SharedState {
  readonly name = 'The state'
  isAway = false
  /** What is asked for is done, and nobody hears of it. */
  losesAnswers = false
  reads = 0
  /** All keys that were read. */
  readonly asked = new Set<string>()
  swaps = 0
  readonly #steady: () => number
  #real: SharedState
  #gate: PromiseWithResolvers<void> | null = null

  constructor(steady: () => number, real: SharedState = new MemoryState(steady)) {
    this.#steady = steady
    this.#real = real
  }

  flush(): void {
    this.#real = new MemoryState(this.#steady)
  }

  /** No call is answered until the function is called that it returns. */
  hold(): () => void {
    const gate = Promise.withResolvers<void>()
    this.#gate = gate
    return () => {
      this.#gate = null
      gate.resolve()
    }
  }

  async read(keys: readonly string[]): Promise<readonly (string | null)[]> {
    this.reads += 1
    for (const key of keys) this.asked.add(key)
    return this.#answer(() => this.#real.read(keys))
  }

  async swap(swaps: readonly Swap[]): Promise<readonly SwapAnswer[]> {
    this.swaps += 1
    return this.#answer(() => this.#real.swap(swaps))
  }

  async close(): Promise<void> {}

  async #answer<T>(work: () => Promise<T>): Promise<T> {
    await this.#gate?.promise
    if (this.isAway) throw new Error('nobody answers')
    const answer = await work()
    if (this.losesAnswers) throw new Error('the answer got lost')
    return answer
  }
}
