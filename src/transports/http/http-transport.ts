import { Agent } from 'undici'
import type { Endpoint, HttpEndpoint } from '../../core/endpoint.ts'
import type { Report } from '../../core/outcome.ts'
import type { Parcel, Transport } from '../transport.ts'
import { openAddressGuard } from './address-guard.ts'
import { type Admission, openAdmission, portOf } from './admission.ts'
import { Connector, type OnBlocked } from './connector.ts'
import { Exchange, type Surroundings } from './exchange.ts'
import { codeOf, reportFailure } from './failure.ts'
import { type Gates, openGates } from './gates.ts'
import { openInterrupts } from './interrupts.ts'
import { httpUrl, type Request, type Route, requestOf, routeOf } from './request.ts'
import { openSystemDns, type Resolve } from './system-dns.ts'

export type HttpTransportSettings = Readonly<{
  userAgent: string
  /** Networks and addresses that are open although they are not on the internet. */
  allowPrivate: readonly string[]
  /** Origins whose host and port are open wherever they lead: a person has named exactly these. */
  allowOrigins?: readonly string[]
  connectionsPerOriginMax?: number
  /** How much of an answer's body is kept. */
  responseBytesMax?: number
  /** Finds the addresses of a name; the machine's own way by default. */
  resolve?: Resolve
  /** Told where a host leads that is refused. Whoever chose the host is not. */
  onBlocked?: OnBlocked
  /** A certificate authority to trust besides the usual ones, as PEM. */
  ca?: string
}>

const connectionsPerOriginMaxDefault = 256
const responseBytesMaxDefault = 4 * 1_024
const responseHeaderBytesMax = 16 * 1_024
const keepAliveMs = 30_000
const keepAliveMsMax = 120_000
/** A busy connection never rests; this is when it makes room for one to where the name leads by then. */
const requestsPerConnectionMax = 1_000
const timerMsMax = 2 ** 31 - 1

/** A connection that was kept open and has died meanwhile shows itself by one of these. */
const deadSocketCodes: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

const interrupted: Report = { kind: 'interrupted', message: 'the try was interrupted' }
const afterClose: Report = { kind: 'interrupted', message: 'the transport is closed' }
const late: Report = { kind: 'unreachable', code: 'DEADLINE', message: 'no answer came within the timeout' }

/** Delivers over HTTP/1.1: signed, without redirects or proxies, and only to addresses that the guard lets through. */
export function openHttpTransport(settings: HttpTransportSettings): HttpTransport {
  return new HttpTransport(settings)
}

export class HttpTransport implements Transport {
  readonly kind = 'http'
  readonly #userAgent: string
  readonly #dns = openSystemDns()
  readonly #admission: Admission
  readonly #connector: Connector
  readonly #agent: Agent
  readonly #freshAgent: Agent
  readonly #around: Surroundings
  readonly #gates: Gates<Exchange>
  readonly #interrupts = openInterrupts<Exchange>((exchange) => this.#cut(exchange, interrupted))
  readonly #routes = new WeakMap<Endpoint, Route>()
  readonly #running = openCount()
  #closing: Promise<void> | null = null

  constructor(settings: HttpTransportSettings) {
    const guard = openAddressGuard(settings.allowPrivate)
    const connectionsMax = settings.connectionsPerOriginMax ?? connectionsPerOriginMaxDefault
    this.#userAgent = settings.userAgent
    this.#admission = openAdmission(guard, settings.resolve ?? this.#dns.resolve, settings.allowOrigins ?? [])
    this.#connector = new Connector(this.#admission, settings.ca, settings.onBlocked ?? (() => {}))
    this.#agent = openAgent(this.#connector, connectionsMax, 1)
    // No pipelining means no keep-alive: every request has a connection of its own.
    this.#freshAgent = openAgent(this.#connector, connectionsMax, 0)
    this.#gates = openGates(connectionsMax, (exchange) => this.#agent.dispatch(exchange.request, exchange))
    this.#around = {
      bytesKeptMax: settings.responseBytesMax ?? responseBytesMaxDefault,
      released: (exchange) => this.#gates.leave(exchange.request.origin),
      isStale: (error) => deadSocketCodes.has(codeOf(error)) && this.#connector.endedUsedSocket(error),
      resend: (exchange) => this.#freshAgent.dispatch(exchange.request, exchange),
    }
  }

  async deliver(parcel: Parcel, signal: AbortSignal): Promise<Report> {
    if (this.#closing !== null) return afterClose
    if (signal.aborted) return interrupted
    try {
      const { endpoint } = parcel
      if (endpoint.kind !== 'http')
        return { kind: 'blocked', message: `an endpoint of kind ${endpoint.kind} has no URL` }
      const route = this.#route(endpoint)
      if (route.problem !== null) return { kind: 'blocked', message: route.problem }
      return await this.#send(requestOf(route, parcel), endpoint.timeoutMs, signal)
    } catch (error) {
      return reportFailure(error)
    }
  }

  serves(): boolean {
    return true
  }

  onServing(): void {}

  /**
   * Why this address would be refused right now, in a sentence; null when it would not. No connection is made. Only an
   * operator is told where a name leads.
   */
  async refusal(text: string, { isOperator } = { isOperator: false }): Promise<string | null> {
    const url = httpUrl(text)
    if (typeof url === 'string') return url
    const vetted = await this.#admission.vet(url.hostname, portOf(url.protocol, url.port))
    if (vetted.kind !== 'refused') return null
    return isOperator ? vetted.detail : vetted.message
  }

  /** Waits for the tries under way, each of which has its deadline, then lets go of every connection. */
  close(): Promise<void> {
    this.#closing ??= this.#shut()
    return this.#closing
  }

  async #shut(): Promise<void> {
    await this.#running.zero()
    this.#connector.close()
    this.#dns.close()
    await Promise.allSettled([this.#agent.destroy(), this.#freshAgent.destroy()])
  }

  #send(request: Request, timeoutMs: number, signal: AbortSignal): Promise<Report> {
    return new Promise((resolve) => {
      const exchange = new Exchange(request, this.#around, (report) => {
        clearTimeout(timer)
        this.#interrupts.remove(signal, exchange)
        this.#running.down()
        resolve(report)
      })
      const timer = setTimeout(this.#expire, Math.min(timeoutMs, timerMsMax), exchange)
      this.#running.up()
      this.#interrupts.add(signal, exchange)
      this.#gates.enter(request.origin, exchange)
    })
  }

  readonly #expire = (exchange: Exchange): void => this.#cut(exchange, late)

  #cut(exchange: Exchange, report: Report): void {
    this.#gates.drop(exchange.request.origin, exchange)
    exchange.cut(report)
  }

  #route(endpoint: HttpEndpoint): Route {
    const known = this.#routes.get(endpoint)
    if (known !== undefined) return known
    const route = routeOf(endpoint, this.#userAgent)
    this.#routes.set(endpoint, route)
    return route
  }
}

function openAgent(connector: Connector, connections: number, pipelining: 0 | 1): Agent {
  return new Agent({
    connect: connector.connect,
    connections,
    pipelining,
    allowH2: false,
    // The deadline of the try is the only clock: undici's restart with every byte.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: responseHeaderBytesMax,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: keepAliveMsMax,
    maxRequestsPerClient: requestsPerConnectionMax,
  })
}

type Count = Readonly<{ up(): void; down(): void; zero(): Promise<void> }>

/** How many tries are under way, and when there are none. */
function openCount(): Count {
  let count = 0
  let atZero: (() => void)[] = []
  return {
    up() {
      count++
    },
    down() {
      count--
      if (count > 0) return
      for (const done of atZero) done()
      atZero = []
    },
    zero: () => (count === 0 ? Promise.resolve() : new Promise((resolve) => atZero.push(resolve))),
  }
}
