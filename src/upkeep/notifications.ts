import type { Notice } from '../core/notice.ts'
import {
  endpointConcerned,
  gathered,
  isNews,
  type Notification,
  needsAttention,
  notificationOf,
  subjectOf,
} from '../core/notification.ts'
import { isOwnType } from '../core/routing.ts'
import type { Logger } from '../log.ts'
import type { Notices } from '../notices.ts'

export type NotificationsParts = Readonly<{
  notices: Notices
  log: Logger
  /** The types that this endpoint wants; null: there is none. */
  typesOf: (endpointId: string) => readonly string[] | null
  /** Endpoints that are disabled already. */
  disabled: readonly string[]
  /** Puts it into the pipeline as an event, if anybody wants it. */
  send: (notification: Notification) => Promise<void>
  /** Whose is what concerns all tenants. */
  tenant: string
}>

export type NotificationListener = (notification: Notification) => void

/** After a notification, others about the same subject are gathered for so long. */
const gatherMs = 60_000
const subjectsMax = 10_000
/** With more endpoints of one tenant than these, the further ones are told of together. */
const endpointsPerTenantMax = 10

type Open = { told: Notification; next: Notification | null; timer: NodeJS.Timeout }

/**
 * Tells people what they want to know: in the log, to callbacks, and as `posthorn.*` events through Posthorn's own
 * pipeline, signed and retried like all others. The first of a kind goes at once, what follows is gathered: ten
 * thousand dead letters are a few messages.
 */
export class Notifications {
  readonly #parts: NotificationsParts
  readonly #open = new Map<string, Open>()
  readonly #endpointsOf = new Map<string, number>()
  readonly #listeners = new Set<NotificationListener>()
  readonly #disabled: Set<string>
  readonly #underway = new Set<Promise<void>>()
  readonly #unsubscribe: () => void
  #untold = 0

  constructor(parts: NotificationsParts) {
    this.#parts = parts
    this.#disabled = new Set(parts.disabled)
    this.#unsubscribe = parts.notices.subscribe((notice) => this.#hear(notice))
  }

  /** For the library's callbacks, and for counting. Returns what ends it. */
  subscribe(listener: NotificationListener): () => void {
    this.#listeners.add(listener)
    return () => {
      this.#listeners.delete(listener)
    }
  }

  /** Now, or gathered with others about the same. */
  tell(notification: Notification): void {
    const grouped = this.#grouped(notification)
    const subject = subjectOf(grouped)
    const open = this.#open.get(subject)
    if (open !== undefined) {
      open.next = open.next === null ? grouped : gathered(open.next, grouped)
    } else if (this.#open.size >= subjectsMax) this.#untold += 1
    else this.#say(subject, grouped)
  }

  /** Says what is gathered so far, and nothing more. */
  async stop(): Promise<void> {
    this.#unsubscribe()
    for (const { timer, next, told } of this.#open.values()) {
      clearTimeout(timer)
      if (next !== null && isNews(told, next)) this.#send(next)
    }
    this.#open.clear()
    await Promise.all(this.#underway)
  }

  #hear(notice: Notice): void {
    if (notice.kind === 'endpoint.changed' && !this.#becameDisabled(notice)) return
    const notification = notificationOf(notice, this.#parts.tenant)
    if (notification !== null) this.tell(notification)
  }

  /** A change of something else is told of in the same way. */
  #becameDisabled({ endpointId, status }: Extract<Notice, { kind: 'endpoint.changed' }>): boolean {
    const wasDisabled = this.#disabled.has(endpointId)
    if (status === 'disabled') this.#disabled.add(endpointId)
    else this.#disabled.delete(endpointId)
    return status === 'disabled' && !wasDisabled
  }

  #grouped(notification: Notification): Notification {
    if (notification.type !== 'posthorn.dead_letters' || this.#open.has(subjectOf(notification))) return notification
    const endpoints = this.#endpointsOf.get(notification.tenant) ?? 0
    return endpoints < endpointsPerTenantMax ? notification : { ...notification, endpointId: null }
  }

  #say(subject: string, notification: Notification): void {
    this.#send(notification)
    const timer = setTimeout(() => this.#close(subject), gatherMs)
    timer.unref()
    this.#open.set(subject, { told: notification, next: null, timer })
    this.#countEndpoint(notification, 1)
  }

  #close(subject: string): void {
    const open = this.#open.get(subject)
    if (open === undefined) return
    this.#open.delete(subject)
    this.#countEndpoint(open.told, -1)
    if (open.next !== null && isNews(open.told, open.next)) this.#say(subject, open.next)
    if (this.#untold === 0) return
    this.#parts.log.warn({ count: this.#untold }, 'notifications.too_many')
    this.#untold = 0
  }

  #countEndpoint({ type, tenant }: Notification, change: 1 | -1): void {
    if (type !== 'posthorn.dead_letters') return
    const count = (this.#endpointsOf.get(tenant) ?? 0) + change
    if (count === 0) this.#endpointsOf.delete(tenant)
    else this.#endpointsOf.set(tenant, count)
  }

  #send(notification: Notification): void {
    const { log, send } = this.#parts
    if (needsAttention(notification)) log.warn(notification, 'notification')
    else log.info(notification, 'notification')
    for (const listener of this.#listeners) {
      try {
        listener(notification)
      } catch (err) {
        log.error({ err, type: notification.type }, 'notification.listener_failed')
      }
    }
    if (this.#wouldReturn(notification)) return
    const sending: Promise<void> = send(notification)
      .catch((err) => log.warn({ err, type: notification.type }, 'notification.not_sent'))
      .finally(() => this.#underway.delete(sending))
    this.#underway.add(sending)
  }

  /** What concerns an endpoint that itself takes notifications goes to no endpoint: it would cause the next one. */
  #wouldReturn(notification: Notification): boolean {
    const endpointId = endpointConcerned(notification)
    return endpointId !== null && (this.#parts.typesOf(endpointId) ?? []).some(isOwnType)
  }
}
