import type { Notice } from '../core/notice.ts'
import { isKnownToOne } from '../core/notice-filter.ts'
import {
  addsUp,
  endpointConcerned,
  gathered,
  isNews,
  type Notification,
  needsAttention,
  notificationOf,
  subjectOf,
} from '../core/notification.ts'
import { isOwnType } from '../core/routing.ts'
import type { Dispatcher } from '../dispatch/dispatcher.ts'
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
  /** Of several processes that share the store, one tells of what all of them see. */
  dispatcher: Pick<Dispatcher, 'leads'>
  /** Asks whether this process may be the one that tells about this for so long; null: there is no other. */
  mayTell: ((subject: string, forMs: number) => Promise<boolean>) | null
  /** Whose is what concerns all tenants. */
  tenant: string
}>

export type NotificationListener = (notification: Notification) => void

/** After a notification, others about the same subject are gathered for so long. */
const gatherMs = 60_000
/** What was asked for has ended when the window of who asked ends. */
const toldForMs = gatherMs - 1_000
const subjectsMax = 10_000
/** With more endpoints of one tenant than these, the further ones are told of together. */
const endpointsPerTenantMax = 10

/** `told`: null while it is not known whether this process tells, and where another has. */
type Open = {
  readonly about: Notification
  told: Notification | null
  next: Notification | null
  readonly timer: NodeJS.Timeout
}

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
    else this.#begin(subject, grouped)
  }

  /** Says what is gathered so far, and nothing more. */
  async stop(): Promise<void> {
    this.#unsubscribe()
    for (const { timer, next, told } of this.#open.values()) {
      clearTimeout(timer)
      if (next !== null && (told === null || isNews(told, next))) this.#send(next)
    }
    this.#open.clear()
    await Promise.all(this.#underway)
  }

  #hear(notice: Notice): void {
    if (notice.kind === 'endpoint.changed' && !this.#becameDisabled(notice)) return
    if (!isKnownToOne(notice) && !this.#parts.dispatcher.leads) return
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

  #begin(subject: string, about: Notification): void {
    const timer = setTimeout(() => this.#close(subject), gatherMs)
    timer.unref()
    const open: Open = { about, told: null, next: about, timer }
    this.#open.set(subject, open)
    this.#countEndpoint(about, 1)
    const { mayTell } = this.#parts
    if (mayTell === null || !addsUp(about)) this.#say(open)
    else void this.#sayIfFirst(subject, open, mayTell(subject, toldForMs))
  }

  /** Of processes that see parts of the same, one tells at once. The others gather theirs, and ask again. */
  async #sayIfFirst(subject: string, open: Open, asked: Promise<boolean>): Promise<void> {
    const mayTell = await asked.catch(() => true)
    if (mayTell && this.#open.get(subject) === open) this.#say(open)
  }

  #say(open: Open): void {
    const { next } = open
    if (next === null) return
    open.told = next
    open.next = null
    this.#send(next)
  }

  #close(subject: string): void {
    const open = this.#open.get(subject)
    if (open === undefined) return
    const { told, next } = open
    this.#open.delete(subject)
    this.#countEndpoint(open.about, -1)
    if (next !== null && (told === null || isNews(told, next))) this.#begin(subject, next)
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
