import net from 'node:net'
import tls from 'node:tls'
import type { buildConnector } from 'undici'
import { type Admission, portOf } from './admission.ts'
import { notAllowed } from './resolver.ts'

/** The guard said no. Everything else that can go wrong with a connection is Node's own error. */
export class BlockedAddress extends Error {}

/** Told where a host leads that is refused: for the operator alone. */
export type OnBlocked = (host: string, detail: string) => void

const connectTimeoutMs = 5_000
/** How long one address is tried before the next, when a name has several. */
const addressTimeoutMs = 500
const keepAliveDelayMs = 60_000
const sessionsMax = 1_024

type Target = Readonly<{ secure: boolean; name: string; port: number; addresses: readonly string[] }>

/**
 * Connects to addresses that were vetted, and to no other: the socket never looks a name up by itself. The name stays
 * what TLS asks for and checks.
 */
export class Connector {
  readonly #admission: Admission
  readonly #onBlocked: OnBlocked
  readonly #secureContext: tls.SecureContext
  readonly #sessions = openSessions()
  readonly #usedSocketErrors = new WeakSet<Error>()
  readonly #connecting = new Set<net.Socket>()
  #isClosed = false

  constructor(admission: Admission, ca: string | undefined, onBlocked: OnBlocked) {
    this.#admission = admission
    this.#onBlocked = onBlocked
    // One for all connections: reading the authorities anew for each would cost more than the handshake.
    this.#secureContext = tls.createSecureContext(
      ca === undefined ? {} : { ca: [...tls.getCACertificates('default'), ca] },
    )
  }

  /** As undici wants it. */
  readonly connect: buildConnector.connector = (options, callback) => {
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(timedOut()), connectTimeoutMs)
    this.#connect(options, deadline.signal)
      .finally(() => clearTimeout(timer))
      .then(
        (socket) => callback(null, socket),
        (error: unknown) => callback(asError(error), null),
      )
  }

  /** Whether this error ended a connection that had carried an answer before: an idle one that the other side gave up. */
  endedUsedSocket(error: Error): boolean {
    return this.#usedSocketErrors.has(error) || bytesReadBefore(error) > 0
  }

  /** Ends what is still being connected. */
  close(): void {
    this.#isClosed = true
    for (const socket of this.#connecting) socket.destroy(closed())
  }

  async #connect(options: buildConnector.Options, deadline: AbortSignal): Promise<net.Socket> {
    const name = options.hostname.replace(/\.$/, '')
    const secure = options.protocol === 'https:'
    const port = portOf(options.protocol, options.port)
    const vetted = await unlessAborted(this.#admission.vet(name, port), deadline)
    if (vetted.kind === 'refused') throw this.#blocked(name, vetted.message, vetted.detail)
    if (vetted.kind === 'unknown') throw vetted.error
    if (this.#isClosed) throw closed()
    const socket = this.#open({ secure, name, port, addresses: vetted.addresses })
    this.#connecting.add(socket)
    try {
      await ready(socket, secure ? 'secureConnect' : 'connect', deadline)
      this.#checkPeer(socket, name, port)
      return socket
    } catch (error) {
      socket.destroy()
      throw error
    } finally {
      this.#connecting.delete(socket)
    }
  }

  #open(target: Target): net.Socket {
    const socket = target.secure ? this.#openSecure(target) : net.connect(tcpOptions(target))
    return socket.on('error', (error) => {
      if (socket.bytesRead > 0) this.#usedSocketErrors.add(error)
    })
  }

  #openSecure(target: Target): tls.TLSSocket {
    const key = `${target.name}:${target.port}`
    const session = this.#sessions.get(key)
    const socket = tls.connect({
      ...tcpOptions(target),
      secureContext: this.#secureContext,
      servername: net.isIP(target.name) === 0 ? target.name : '',
      ALPNProtocols: ['http/1.1'],
      rejectUnauthorized: true,
      ...(session === undefined ? {} : { session }),
    })
    return keepSession(socket, (fresh) => this.#sessions.set(key, fresh))
  }

  /** Belt and braces: whatever the address was before, this is who we talk to. */
  #checkPeer(socket: net.Socket, name: string, port: number): void {
    if (socket.remoteAddress === undefined) throw failure('ECONNRESET', 'the connection was closed at once')
    const refusal = this.#admission.refusalOf(name, port, socket.remoteAddress)
    if (refusal !== null) throw this.#blocked(name, net.isIP(name) === 0 ? notAllowed(name) : refusal, refusal)
  }

  #blocked(name: string, message: string, detail: string): BlockedAddress {
    this.#onBlocked(name, detail)
    return new BlockedAddress(message)
  }
}

function tcpOptions(target: Target): net.TcpNetConnectOpts {
  const { addresses, port } = target
  const found = addresses.map((address) => ({ address, family: net.isIP(address) }))
  const lookup: net.LookupFunction = (_name, options, callback) => {
    if (options.all === true) return callback(null, found)
    callback(null, found[0]?.address ?? '', found[0]?.family ?? 0)
  }
  return {
    // A literal is never looked up; a name is, and always finds the vetted addresses.
    host: target.name,
    port,
    lookup,
    autoSelectFamily: addresses.length > 1,
    autoSelectFamilyAttemptTimeout: addressTimeoutMs,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: keepAliveDelayMs,
  }
}

/** Resolves when the socket is ready, rejects when it fails or when the time is over. */
function ready(socket: net.Socket, event: 'connect' | 'secureConnect', deadline: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (error?: Error): void => {
      socket.off(event, onReady).off('error', onError).off('close', onClose)
      deadline.removeEventListener('abort', onAbort)
      error === undefined ? resolve() : reject(error)
    }
    const onReady = (): void => end()
    const onError = (error: Error): void => end(error)
    const onClose = (): void => end(failure('ECONNRESET', 'the connection was closed while it was being made'))
    const onAbort = (): void => end(asError(deadline.reason))
    socket.once(event, onReady).once('error', onError).once('close', onClose)
    deadline.addEventListener('abort', onAbort)
  })
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(asError(signal.reason)))
    work.then(resolve, reject)
  })
}

/**
 * A resumed session skips the check of the host name, so only sessions of connections that passed it are kept. TLS 1.2
 * has its session before that check, TLS 1.3 after it.
 */
function keepSession(socket: tls.TLSSocket, keep: (session: Buffer) => void): tls.TLSSocket {
  let unproven: Buffer | null = null
  return socket
    .on('session', (session) => {
      if (socket.authorized) keep(session)
      else unproven = session
    })
    .once('secureConnect', () => {
      if (unproven !== null) keep(unproven)
    })
}

/** TLS sessions, so that a second connection to a host costs less. */
function openSessions(): Readonly<{ get(key: string): Buffer | undefined; set(key: string, session: Buffer): void }> {
  const kept = new Map<string, Buffer>()
  return {
    get: (key) => kept.get(key),
    set(key, session) {
      kept.delete(key)
      kept.set(key, session)
      if (kept.size <= sessionsMax) return
      const oldest = kept.keys().next()
      if (oldest.done === false) kept.delete(oldest.value)
    },
  }
}

/** undici's own socket errors say what had been read by then. */
function bytesReadBefore(error: Error): number {
  const socket = 'socket' in error ? error.socket : null
  return typeof socket === 'object' && socket !== null && 'bytesRead' in socket ? Number(socket.bytesRead) : 0
}

function closed(): Error {
  return failure('ECONNABORTED', 'the transport is closed')
}

function timedOut(): Error {
  return failure('ETIMEDOUT', `no connection could be made within ${connectTimeoutMs / 1_000} s`)
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
