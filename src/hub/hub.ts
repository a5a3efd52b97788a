import { randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { openClock } from '../clock.ts'
import { type EdgeAddress, edgeAddress } from '../core/edge-address.ts'
import { openHubMemory } from '../store/sqlite/hub-memory-file.ts'
import { type HttpTransport, openHttpTransport } from '../transports/http/http-transport.ts'
import { type Credit, closeCodes } from '../transports/relay/protocol.ts'
import { backoffMs } from './backoff.ts'
import { Deliveries } from './deliveries.ts'
import { EdgeLink } from './edge-link.ts'
import { Ends } from './ends.ts'
import type { HubEnd, HubEvent, Tried } from './hub-events.ts'
import { checkSettings, type HubSettings, type HubTiming, timingDefault } from './hub-settings.ts'
import { verdictOf } from './verdict.ts'

export type { HubEnd, HubEvent, Tried } from './hub-events.ts'
export type { HubSettings } from './hub-settings.ts'

/** The agent behind NAT: connects to its edge, hands what comes to the targets of its routes, and answers. */
export type Hub = Readonly<{
  start(): void
  /** Resolves once, when the hub is gone: because it was stopped, or because the edge does not want it any more. */
  ended: Promise<HubEnd>
  /** Answers what has begun, within the time of grace. May be called twice and never throws. */
  stop(): Promise<void>
}>

const mib = 1_024 * 1_024
/** As many as the edge sends at once by default: what waits here for its turn uses up the edge's patience. */
const concurrencyDefault = 100
/** Bodies are at most 64 MiB at an edge; so much has to fit. */
const credit: Credit = { frames: 1_024, bytes: 64 * mib }
const frameBytesMax = 65 * mib

/** Throws a `PosthornError` for settings that make no sense and for a memory that cannot be opened. */
export function openHub(settings: HubSettings): Hub {
  checkSettings(settings)
  return new RunningHub(settings)
}

class RunningHub implements Hub {
  readonly ended: Promise<HubEnd>
  readonly #settings: HubSettings
  readonly #timing: HubTiming
  readonly #address: EdgeAddress
  readonly #session = randomUUID()
  readonly #transport: HttpTransport
  readonly #ends: Ends
  readonly #deliveries: Deliveries
  readonly #stopping = new AbortController()
  readonly #resolve: (end: HubEnd) => void
  #link: EdgeLink | null = null
  #hasStarted = false
  #shutting: Promise<void> | null = null

  constructor(settings: HubSettings) {
    const { promise, resolve } = Promise.withResolvers<HubEnd>()
    const { routes, concurrency = concurrencyDefault, log } = settings
    this.ended = promise
    this.#resolve = resolve
    this.#settings = settings
    this.#timing = { ...timingDefault, ...settings.timing }
    this.#address = addressOf(settings)
    const clock = openClock()
    const onDamage = (damage: object): void => log.error(damage, 'hub.memory_damaged')
    this.#ends = new Ends(
      openHubMemory({ file: settings.memoryFile, clock, onDamage }),
      log,
      this.#timing.rewriteEveryMs,
    )
    this.#transport = openHttpTransport({
      userAgent: settings.software,
      allowPrivate: [],
      allowOrigins: [...routes.values()],
      ...(settings.ca === undefined ? {} : { ca: settings.ca }),
    })
    const onTried = (tried: Tried): void => this.#tried(tried)
    const shared = { transport: this.#transport, ends: this.#ends, clock, onTried }
    this.#deliveries = new Deliveries({ routes, concurrency, credit, ...shared })
  }

  start(): void {
    if (this.#hasStarted || this.#shutting !== null) return
    this.#hasStarted = true
    if (!this.#address.secure && !isLoopback(this.#address.host)) {
      this.#settings.log.warn({ edge: this.#settings.edge }, 'hub.not_encrypted')
    }
    this.#run().then(
      (end) => this.#shut(end),
      (error: unknown) => {
        // A defect: nobody is served better by a hub that only looks alive.
        this.#settings.log.fatal({ err: error }, 'hub.failed')
        throw error
      },
    )
  }

  stop(): Promise<void> {
    return this.#shut({ kind: 'stopped' })
  }

  /** Link after link, until the edge or a person has had enough. */
  async #run(): Promise<HubEnd> {
    const { signal } = this.#stopping
    for (let failures = 0; ; failures++) {
      this.#link = this.#open()
      const end = await this.#link.ended
      this.#link = null
      if (signal.aborted) return { kind: 'stopped' }
      const verdict = verdictOf(end, this.#settings.edge)
      if (!verdict.comesBack) {
        this.#tell({ kind: 'disconnected', message: verdict.end.message, retryInMs: null })
        return verdict.end
      }
      if (end.lastedMs >= this.#timing.goodLinkMs) failures = 0
      const retryInMs = backoffMs(failures, this.#timing, Math.random())
      this.#tell({ kind: 'disconnected', message: verdict.message, retryInMs })
      await wait(retryInMs, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return { kind: 'stopped' }
    }
  }

  #open(): EdgeLink {
    const { edge, key, ca, proxy = null, compress = false, software, routes, log } = this.#settings
    const { beatMs, silenceMsMax, connectMsMax } = this.#timing
    return new EdgeLink({
      socket: { address: this.#address, key, ca, proxy: proxy || null, compress, frameBytesMax, beatMs, connectMsMax },
      hello: { software, session: this.#session, routes: [...routes.keys()], credit, frameBytesMax },
      deliveries: this.#deliveries,
      silenceMsMax,
      log,
      onWelcome: (welcome) => this.#tell({ kind: 'connected', edge, relay: welcome.relay, software: welcome.software }),
    })
  }

  #shut(end: HubEnd): Promise<void> {
    this.#shutting ??= this.#leave(end)
    return this.#shutting
  }

  async #leave(end: HubEnd): Promise<void> {
    this.#stopping.abort()
    this.#link?.drain()
    const idle = this.#deliveries.drain()
    // Another hub has what this one was doing: two must not be at it for longer than it takes to cut one off.
    if (end.kind === 'replaced') this.#deliveries.interrupt()
    await this.#within(this.#timing.graceMs, idle)
    this.#deliveries.interrupt()
    this.#link?.close(closeCodes.goingAway, 'the hub stops')
    await this.#link?.ended
    await this.#transport.close()
    this.#ends.close()
    this.#settings.log[end.kind === 'stopped' ? 'info' : 'error']({ ...end }, 'hub.ended')
    this.#resolve(end)
  }

  async #within(ms: number, idle: Promise<void>): Promise<void> {
    const isIdle = new AbortController()
    await Promise.race([idle, wait(ms, undefined, { signal: isIdle.signal }).catch(() => undefined)])
    isIdle.abort()
  }

  #tell(event: Exclude<HubEvent, Tried>): void {
    const { kind, ...facts } = event
    // Who stays away says why at its end.
    const isLast = event.kind === 'disconnected' && event.retryInMs === null
    if (!isLast) this.#settings.log.info(facts, `hub.${kind}`)
    this.#hand(event)
  }

  #tried(tried: Tried): void {
    const { delivery: deliveryId, attempt, route, report, outcome, tookMs, remembered } = tried
    const answer = {
      ...(report.kind === 'answered' && { statusCode: report.statusCode }),
      ...(outcome.kind !== 'delivered' && { error: outcome.error }),
    }
    const isNews = outcome.kind !== 'delivered' && !remembered && this.#settings.showsTries !== true
    const level = isNews ? 'warn' : 'info'
    const facts = { deliveryId, attempt, route, outcome: outcome.kind, ...answer, tookMs, remembered }
    this.#settings.log[level](facts, 'hub.tried')
    this.#hand(tried)
  }

  /** Who only watches must not end what is watched. */
  #hand(event: HubEvent): void {
    try {
      this.#settings.onEvent?.(event)
    } catch (error) {
      this.#settings.log.error({ err: error }, 'hub.listener_failed')
    }
  }
}

function addressOf({ edge }: HubSettings): EdgeAddress {
  const address = edgeAddress(edge)
  if ('problem' in address) throw new Error(`edge ${address.problem}`)
  return address
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.')
}
