import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import tls from 'node:tls'
import type { EdgeAddress } from '../../core/edge-address.ts'

export type DialSettings = Readonly<{
  address: EdgeAddress
  /** Certificates to trust besides the usual ones, as PEM. */
  ca?: string | undefined
  /** The URL of an HTTP proxy; null: straight to the edge. */
  proxy: string | null
  connectMsMax: number
}>

/** A connection to the edge, encrypted and verified where its address says so. Rejects with an error that has a code. */
export async function dial(settings: DialSettings, signal: AbortSignal): Promise<net.Socket> {
  const deadline = new AbortController()
  const onAbort = (): void => deadline.abort(failure('ECONNABORTED', 'the hub was stopped'))
  const timer = setTimeout(() => deadline.abort(timedOut(settings.connectMsMax)), settings.connectMsMax)
  signal.addEventListener('abort', onAbort)
  if (signal.aborted) onAbort()
  try {
    const { address, proxy } = settings
    const trusted = settings.ca === undefined ? {} : { ca: [...tls.getCACertificates('default'), settings.ca] }
    const plain =
      proxy === null
        ? await connected(
            net.connect({ host: address.host, port: address.port, noDelay: true }),
            'connect',
            deadline.signal,
          )
        : await tunnel(new URL(proxy), address, trusted, deadline.signal)
    return address.secure ? await encrypted(plain, address, trusted, deadline.signal) : plain
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
}

type Trusted = Readonly<{ ca?: string[] }>

function encrypted(
  plain: net.Socket,
  address: EdgeAddress,
  trusted: Trusted,
  signal: AbortSignal,
): Promise<net.Socket> {
  const { host } = address
  const secure = tls.connect({
    ...trusted,
    socket: plain,
    // For the check of the certificate where the host is an address, which has no name to ask for.
    host,
    servername: net.isIP(host) === 0 ? host : '',
    ALPNProtocols: ['http/1.1'],
    // Said aloud: an environment variable can change the default.
    rejectUnauthorized: true,
  })
  return connected(secure, 'secureConnect', signal)
}

/** Asks a proxy for a way through, whether the edge is encrypted or not: a WebSocket needs one in any case. */
function tunnel(proxy: URL, address: EdgeAddress, trusted: Trusted, signal: AbortSignal): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const target = `${net.isIP(address.host) === 6 ? `[${address.host}]` : address.host}:${address.port}`
    const options = {
      ...trusted,
      host: proxy.hostname.replace(/^\[|\]$/g, ''),
      port: proxy.port === '' ? (proxy.protocol === 'https:' ? 443 : 80) : Number(proxy.port),
      method: 'CONNECT',
      path: target,
      headers: { host: target, ...authorizationOf(proxy) },
      agent: false,
      signal,
    }
    const request =
      proxy.protocol === 'https:' ? https.request({ ...options, rejectUnauthorized: true }) : http.request(options)
    request.once('connect', (response, socket: net.Socket, head: Buffer) => {
      if (response.statusCode === 200) {
        if (head.length > 0) socket.unshift(head)
        socket.setNoDelay(true)
        resolve(socket)
        return
      }
      socket.destroy()
      reject(refusedByProxy(proxy, response.statusCode ?? 0))
    })
    request.once('response', (response) => {
      response.destroy()
      reject(refusedByProxy(proxy, response.statusCode ?? 0))
    })
    request.once('error', (error) => reject(signal.aborted ? signal.reason : viaProxy(proxy, error)))
    request.end()
  })
}

function authorizationOf({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === '' && password === '') return {}
  const pair = `${decoded(username)}:${decoded(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(pair).toString('base64')}` }
}

/** Whoever has not encoded a percent sign means one. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The URL of a proxy may have a password in it: only the host is told. */
function refusedByProxy(proxy: URL, status: number): Error {
  const advice =
    status === 407 ? 'it wants a user and a password, put them into its URL' : 'ask who runs it, or set NO_PROXY'
  return failure('PROXY_REFUSED', `the proxy ${proxy.host} answered ${status}: ${advice}`)
}

function viaProxy(proxy: URL, cause: Error): Error {
  const code = 'code' in cause ? String(cause.code) : 'UNKNOWN'
  return failure('PROXY_UNREACHABLE', `the proxy ${proxy.host} cannot be reached (${code}); check it, or set NO_PROXY`)
}

function connected(socket: net.Socket, event: 'connect' | 'secureConnect', signal: AbortSignal): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const end = (error: Error | null): void => {
      socket.off(event, onReady).off('error', end).off('close', onClose)
      signal.removeEventListener('abort', onAbort)
      if (error === null) {
        resolve(socket)
        return
      }
      // What it may still say has nobody to hear it.
      socket.on('error', () => undefined).destroy()
      reject(error)
    }
    const onReady = (): void => end(null)
    const onClose = (): void => end(failure('ECONNRESET', 'the connection was closed while it was being made'))
    const onAbort = (): void => end(signal.reason)
    socket.once(event, onReady).once('error', end).once('close', onClose)
    signal.addEventListener('abort', onAbort)
    if (signal.aborted) onAbort()
  })
}

function timedOut(connectMsMax: number): Error {
  return failure('ETIMEDOUT', `no connection could be made within ${connectMsMax / 1_000} s`)
}

function failure(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}
