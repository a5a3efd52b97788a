import type { Logger } from '../log.ts'

/** Why a consumer gets no records. It is logged when it begins, and not again while it lasts. */
export class Problem {
  readonly #log: Logger
  readonly #consumer: string
  #text: string | null = null

  constructor(log: Logger, consumer: string) {
    this.#log = log
    this.#consumer = consumer
  }

  /** null: nothing is wrong. */
  get text(): string | null {
    return this.#text
  }

  note(err: unknown): null {
    if (this.#text === null) this.#log.error({ err, consumer: this.#consumer }, 'consumer.not_polled')
    this.#text = err instanceof Error ? err.message : String(err)
    return null
  }

  end(): void {
    this.#text = null
  }
}
