import type { Bus } from '../../shared-state/bus.ts'
import { textBytesMax } from './hints.ts'

/** Texts on the connection of the hints. It closes with the store. */
export class HintBus implements Bus {
  readonly textBytesMax = textBytesMax
  readonly #publish: Bus['publish']
  #listener: (text: string) => void = () => {}

  constructor(publish: Bus['publish']) {
    this.#publish = publish
  }

  publish(texts: readonly string[]): Promise<boolean> {
    return this.#publish(texts)
  }

  onText(listener: (text: string) => void): void {
    this.#listener = listener
  }

  async close(): Promise<void> {
    this.#listener = () => {}
  }

  take(text: string): void {
    this.#listener(text)
  }
}
