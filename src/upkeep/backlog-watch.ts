import type { Notification } from '../core/notification.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
import type { Logger } from '../log.ts'
import type { Stats } from './stats.ts'

export type BacklogWatchParts = Readonly<{
  stats: Stats
  log: Logger
  /** More deliveries than these should not wait. */
  max: number
  /** Who is told of what concerns all tenants. */
  tenant: string
  /** Of several processes that share the store, one tells. */
  dispatcher: Pick<Dispatcher, 'leads'>
  tell: (notification: Notification) => void
}>

const everyMs = 60_000
/** It is normal again when it is clearly below the limit: one around it would be told of again and again. */
const normalShare = 0.8
const endpointsToldMax = 5

/** Tells when too much waits, and when it is over. */
export class BacklogWatch {
  readonly #parts: BacklogWatchParts
  #timer: NodeJS.Timeout | null = null
  #isHigh = false

  constructor(parts: BacklogWatchParts) {
    this.#parts = parts
  }

  start(): void {
    this.#timer = setInterval(() => void this.look(), everyMs)
    this.#timer.unref()
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
  }

  async look(): Promise<void> {
    const { stats, log, max, tenant, dispatcher, tell } = this.#parts
    if (!dispatcher.leads) return
    try {
      const { backlog } = await stats.read()
      const pending = backlog.reduce((sum, { pending }) => sum + pending, 0)
      const isHigh = this.#isHigh ? pending >= max * normalShare : pending > max
      if (isHigh === this.#isHigh) return
      this.#isHigh = isHigh
      const largest = backlog.toSorted((a, b) => b.pending - a.pending).slice(0, endpointsToldMax)
      const endpoints = largest.map(({ endpointId, pending }) => ({ endpointId, pending }))
      const type = isHigh ? 'posthorn.backlog.high' : 'posthorn.backlog.normal'
      tell({ type, tenant, pending, max, endpoints })
    } catch (err) {
      log.warn({ err }, 'backlog.not_counted')
    }
  }
}
