import { randomBytes } from 'node:crypto'
import type { NoticeFilter } from '../core/notice-filter.ts'
import type { Elsewhere, ElsewhereListener } from '../notices.ts'
import { type Item, listeningText, messageIn } from './notice-message.ts'
import { NoticeSender, type NoticeSenderParts } from './notice-sender.ts'

const sayEveryMs = 2_000
/** It may get lost a few times in a row. */
const listeningMs = 7_000
/** Listeners that come and go within a moment are said together. */
const gatheredMs = 10

/**
 * Notices among processes that share a database. What happened at others reaches those who listen here and nobody else:
 * it was counted, notified and traced where it happened.
 */
export class NoticeExchange implements Elsewhere {
  readonly #parts: Omit<NoticeSenderParts, 'name'>
  /** By it this process knows its own words. */
  readonly #name = randomBytes(6).toString('hex')
  readonly #sender: NoticeSender
  #listener: ElsewhereListener | null = null
  #filters: readonly NoticeFilter[] = []
  #gathering: NodeJS.Timeout | null = null
  #repeating: NodeJS.Timeout | null = null

  constructor(parts: Omit<NoticeSenderParts, 'name'>) {
    this.#parts = parts
    this.#sender = new NoticeSender({ ...parts, name: this.#name })
    parts.bus.onText((text) => this.#hear(text))
  }

  /** Other processes at which somebody listens. */
  get listeningMembers(): number {
    return this.#sender.listeningMembers
  }

  listen(filters: readonly NoticeFilter[], listener: ElsewhereListener): void {
    this.#filters = filters
    this.#listener = filters.length === 0 ? null : listener
    this.#gathering ??= setTimeout(() => this.#say(), gatheredMs).unref()
  }

  /** May be called twice. */
  async close(): Promise<void> {
    for (const timer of [this.#gathering, this.#repeating]) if (timer !== null) clearTimeout(timer)
    this.#sender.close()
    await this.#parts.bus.close()
  }

  #say(): void {
    const { bus } = this.#parts
    const [from, filters, forMs] = [this.#name, this.#filters, listeningMs]
    if (this.#repeating !== null) clearTimeout(this.#repeating)
    this.#gathering = null
    this.#repeating = filters.length === 0 ? null : setTimeout(() => this.#say(), sayEveryMs).unref()
    void bus.publish([listeningText({ from, filters, forMs }, bus.textBytesMax)])
  }

  #hear(text: string): void {
    const message = messageIn(text)
    if (message === null || message.from === this.#name) return
    switch (message.kind) {
      case 'listening':
        this.#sender.hear(message)
        return
      case 'happened':
        for (const item of message.items) this.#tell(item)
    }
  }

  #tell(item: Item): void {
    if ('notice' in item) this.#listener?.happened(item.notice, item.at)
    else this.#listener?.dropped(item.tenant, item.dropped)
  }
}
