import type { Clock } from '../core/clock.ts'
import type { Notice } from '../core/notice.ts'
import { isKnownToOne } from '../core/notice-filter.ts'
import type { Notices } from '../notices.ts'
import { Audience } from './audience.ts'
import type { Bus } from './bus.ts'
import { happenedTexts, itemBytesMax, type Listening } from './notice-message.ts'
import { WaitingNotices } from './waiting-notices.ts'

export type NoticeSenderParts = Readonly<{
  bus: Bus
  notices: Notices
  clock: Clock
  /** What this process calls itself. */
  name: string
  /** Called with every notice that somebody elsewhere wanted. */
  onSent: (result: 'sent' | 'dropped', count: number) => void
}>

const gatheredMs = 50
/** So much waits at most, which with `gatheredMs` bounds the rate as well. */
export const waitingBytesMax = 131_072
const lapseEveryMs = 1_000

/**
 * Sends what happens here to the processes at which somebody listens to it. While nobody does it is not subscribed, and
 * a notice costs nothing. What happens within a moment is sent together.
 */
export class NoticeSender {
  readonly #parts: NoticeSenderParts
  readonly #audience = new Audience()
  readonly #waiting: WaitingNotices
  #unsubscribe: (() => void) | null = null
  #gathering: NodeJS.Timeout | null = null
  #isSending = false

  constructor(parts: NoticeSenderParts) {
    this.#parts = parts
    const { bus, name } = parts
    this.#waiting = new WaitingNotices({
      bytesMax: waitingBytesMax,
      itemBytesMax: itemBytesMax(name, bus.textBytesMax),
    })
  }

  /** Other processes at which somebody listens. */
  get listeningMembers(): number {
    return this.#audience.size
  }

  hear({ from, filters, forMs }: Listening): void {
    this.#audience.note(from, filters, this.#parts.clock.steady() + forMs)
    this.#followAudience()
  }

  close(): void {
    this.#audience.clear()
    this.#followAudience()
  }

  #followAudience(): void {
    if (this.#audience.size > 0) this.#unsubscribe ??= this.#subscribe()
    else {
      this.#unsubscribe?.()
      this.#unsubscribe = null
      if (this.#gathering !== null) clearTimeout(this.#gathering)
      this.#gathering = null
      this.#waiting.clear()
    }
  }

  #subscribe(): () => void {
    const { notices, clock } = this.#parts
    const unsubscribe = notices.subscribe((notice) => this.#take(notice))
    const lapsing = setInterval(() => {
      this.#audience.lapse(clock.steady())
      this.#followAudience()
    }, lapseEveryMs).unref()
    return () => {
      unsubscribe()
      clearInterval(lapsing)
    }
  }

  #take(notice: Notice): void {
    if (!isKnownToOne(notice) || !this.#audience.wants(notice)) return
    const { clock, onSent } = this.#parts
    if (!this.#waiting.add(notice, clock.wall())) onSent('dropped', 1)
    this.#sendSoon()
  }

  #sendSoon(): void {
    if (this.#isSending) return
    this.#gathering ??= setTimeout(() => void this.#send(), gatheredMs).unref()
  }

  /** One batch at a time: what comes meanwhile waits, or is dropped. */
  async #send(): Promise<void> {
    const { bus, name, onSent } = this.#parts
    this.#gathering = null
    this.#isSending = true
    const batch = this.#waiting.take()
    const isSent = await bus.publish(happenedTexts(name, batch.items, bus.textBytesMax))
    this.#isSending = false
    onSent(isSent ? 'sent' : 'dropped', batch.tenants.length)
    if (this.#unsubscribe === null) return
    if (!isSent) this.#waiting.lost(batch)
    if (!this.#waiting.isEmpty) this.#sendSoon()
  }
}
