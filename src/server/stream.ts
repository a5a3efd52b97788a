import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Notice } from '../core/notice.ts'
import { type NoticeFilter, noticeMatcher } from '../core/notice-filter.ts'
import { quotaProblem } from '../core/quota.ts'
import type { Elsewhere, ElsewhereListener, Notices } from '../notices.ts'
import type { Access } from './auth.ts'
import type { Keys } from './keys.ts'
import { Problem } from './problem.ts'
import type { Scope } from './scope.ts'
import { instant } from './shown.ts'

const heartbeatMs = 15_000
export const streamClientsMax = 200
/** What may wait for one slow reader. Beyond it notices are dropped and counted. */
const waitingBytesMax = 256 * 1024

export type NoticeKind = Notice['kind']
const everyKind: Readonly<Record<NoticeKind, true>> = {
  'event.accepted': true,
  'attempt.settled': true,
  'delivery.ended': true,
  'breaker.changed': true,
  'endpoint.changed': true,
  'lane.stuck': true,
  'replay.changed': true,
  'relay.changed': true,
}
export const noticeKinds = Object.keys(everyKind) as readonly NoticeKind[]

export type StreamRequest = Readonly<{
  scope: Scope
  filter: Omit<NoticeFilter, 'tenant'>
  headers: IncomingHttpHeaders
  response: ServerResponse
}>

export type StreamParts = Readonly<{
  notices: Notices
  elsewhere: Elsewhere
  keys: Keys
  access: Access
  now: () => number
  /** How many may listen with keys of one tenant. */
  tenantMax: number
}>

/**
 * Tells those who listen what happens in all processes that share the store, while it happens. Nothing is kept for them:
 * what they miss is in the lists.
 */
export class Stream {
  readonly #parts: StreamParts
  readonly #clients = new Set<Listener>()
  readonly #elsewhere: ElsewhereListener = {
    happened: (notice, at) => this.#tell(notice, at),
    dropped: (tenant, count) => {
      for (const client of this.#clients) if (client.sees(tenant)) client.miss(count)
    },
  }
  #stop: (() => void) | null = null

  constructor(parts: StreamParts) {
    this.#parts = parts
  }

  get clients(): number {
    return this.#clients.size
  }

  /** Takes the response over. Throws a problem when too many listen. */
  open(request: StreamRequest): void {
    const { tenant } = request.scope
    const quota = {
      things: 'listeners',
      max: streamClientsMax,
      tenantMax: this.#parts.tenantMax,
      setting: 'POSTHORN_TENANT_STREAMS_MAX',
    }
    const problem = quotaProblem(
      quota,
      tenant,
      [...this.#clients].map((client) => client.tenant),
    )
    if (problem !== null) {
      const headers = { 'retry-after': '10' }
      throw new Problem(tenant === null ? 'overloaded' : 'limit_reached', `${problem} Try again later.`, { headers })
    }
    const client = new Listener(request)
    this.#clients.add(client)
    this.#stop ??= this.#start()
    this.#listenElsewhere()
    request.response.on('close', () => this.#forget(client))
    client.begin()
  }

  /** Ends all of them. */
  stop(): void {
    for (const client of this.#clients) this.#end(client, (response) => response.end())
  }

  /** Told nothing from now on: what is written after the end would be an error that nobody expects. */
  #end(client: Listener, how: (response: ServerResponse) => void): void {
    this.#forget(client)
    how(client.response)
  }

  #forget(client: Listener): void {
    if (!this.#clients.delete(client)) return
    this.#listenElsewhere()
    if (this.#clients.size === 0) this.#rest()
  }

  #listenElsewhere(): void {
    const filters = [...this.#clients].map((client) => client.filter)
    this.#parts.elsewhere.listen(filters, this.#elsewhere)
  }

  #start(): () => void {
    const { notices, keys, access } = this.#parts
    const unsubscribe = notices.subscribe((notice) => this.#tell(notice, this.#parts.now()))
    const forget = keys.onRevoked(() => {
      for (const client of this.#clients) {
        // Not an orderly end, which would wait for a reader that does not read.
        if (access(client.headers) instanceof Problem) this.#end(client, (response) => response.destroy())
      }
    })
    const heartbeat = setInterval(() => {
      for (const client of this.#clients) client.beat()
    }, heartbeatMs).unref()
    return () => {
      unsubscribe()
      forget()
      clearInterval(heartbeat)
    }
  }

  #rest(): void {
    this.#stop?.()
    this.#stop = null
  }

  #tell(notice: Notice, at: number): void {
    let text: string | null = null
    for (const client of this.#clients) {
      if (!client.wants(notice)) continue
      text ??= `event: ${notice.kind}\ndata: ${JSON.stringify(noticeShown(notice, at))}\n\n`
      client.send(text)
    }
  }
}

class Listener {
  readonly headers: IncomingHttpHeaders
  readonly response: ServerResponse
  readonly filter: NoticeFilter
  readonly #scope: Scope
  readonly #matches: (notice: Notice) => boolean
  #dropped = 0
  /** Heartbeats since the reader last took all that there was. */
  #stalled = 0

  constructor({ scope, filter, headers, response }: StreamRequest) {
    this.headers = headers
    this.#scope = scope
    this.response = response
    this.filter = { ...filter, tenant: scope.tenant }
    // About tenants the scope decides.
    this.#matches = noticeMatcher({ ...this.filter, tenant: null })
  }

  begin(): void {
    this.response.writeHead(200, streamHeaders)
    this.response.write(': posthorn\n\n')
    this.response.on('drain', () => this.#catchUp())
    // A reader that is gone is no news: its connection closes, and with it goes all there is to do.
    this.response.on('error', () => {})
  }

  get tenant(): string | null {
    return this.#scope.tenant
  }

  sees(tenant: string | null): boolean {
    return this.#scope.sees(tenant)
  }

  wants(notice: Notice): boolean {
    return this.sees(notice.tenant) && this.#matches(notice)
  }

  send(text: string): void {
    if (this.#dropped > 0 || this.response.writableLength + text.length > waitingBytesMax) this.#dropped += 1
    else this.response.write(text)
  }

  /** So many were not sent here by another process. */
  miss(count: number): void {
    const isBehind = this.#dropped > 0 || this.response.writableLength > waitingBytesMax
    this.#dropped += count
    if (!isBehind) this.#tellDropped()
  }

  /** A proxy sees that the line is alive; one who has read nothing between two beats is let go. */
  beat(): void {
    if (this.response.writableLength === 0) {
      this.#stalled = 0
      this.response.write(':\n\n')
      return
    }
    this.#stalled += 1
    if (this.#stalled > 1 && this.#dropped > 0) this.response.destroy()
  }

  #catchUp(): void {
    this.#stalled = 0
    if (this.#dropped > 0 && !this.response.writableEnded) this.#tellDropped()
  }

  #tellDropped(): void {
    this.response.write(`event: dropped\ndata: {"kind":"dropped","dropped":${this.#dropped}}\n\n`)
    this.#dropped = 0
  }
}

export const streamHeaders = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  'x-accel-buffering': 'no',
}

/** `at` is when it was told, which is right after it was on disk. */
function noticeShown({ kind, ...facts }: Notice, at: number): object {
  const started = 'startedAt' in facts && { startedAt: instant(facts.startedAt) }
  return { kind, at: instant(at), ...facts, ...started }
}
