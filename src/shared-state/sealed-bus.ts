import type { SecretBox } from '../store/secret-box.ts'
import type { Bus } from './bus.ts'

const context = 'bus'
/** What sealing adds to a text. */
const overheadBytes = 28

/**
 * Texts that only processes with the same encryption key can read and write. Everybody who may connect to a database may
 * listen and notify there, and a Redis may serve others too.
 */
export class SealedBus implements Bus {
  readonly textBytesMax: number
  readonly #bus: Bus
  readonly #box: SecretBox

  constructor(bus: Bus, box: SecretBox) {
    this.#bus = bus
    this.#box = box
    this.textBytesMax = Math.floor(bus.textBytesMax / 4) * 3 - overheadBytes
  }

  publish(texts: readonly string[]): Promise<boolean> {
    return this.#bus.publish(texts.map((text) => Buffer.from(this.#box.seal(text, context)).toString('base64')))
  }

  onText(listener: (text: string) => void): void {
    this.#bus.onText((sealed) => {
      const text = this.#opened(sealed)
      if (text !== null) listener(text)
    })
  }

  close(): Promise<void> {
    return this.#bus.close()
  }

  /** null: it is of somebody with another key. */
  #opened(sealed: string): string | null {
    try {
      return this.#box.open(Buffer.from(sealed, 'base64'), context)
    } catch {
      return null
    }
  }
}
