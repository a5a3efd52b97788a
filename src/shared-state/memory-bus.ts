import type { Bus } from './bus.ts'

/** For one process. `group`: all that share it, such as the members that a test opens. */
export class MemoryBus implements Bus {
  readonly textBytesMax = 65_536
  readonly #group: Set<MemoryBus>
  #listener: (text: string) => void = () => {}

  constructor(group: Set<MemoryBus> = new Set()) {
    this.#group = group
    group.add(this)
  }

  async publish(texts: readonly string[]): Promise<boolean> {
    if (!this.#group.has(this)) return false
    for (const bus of this.#group) queueMicrotask(() => bus.#take(texts))
    return true
  }

  onText(listener: (text: string) => void): void {
    this.#listener = listener
  }

  async close(): Promise<void> {
    this.#group.delete(this)
  }

  #take(texts: readonly string[]): void {
    if (this.#group.has(this)) for (const text of texts) this.#listener(text)
  }
}
