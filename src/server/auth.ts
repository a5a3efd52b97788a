import { Buffer } from 'node:buffer'
import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Caller } from '../core/api-key.ts'
import { Problem } from './problem.ts'

/** Who asks, or why the request may not be served. Cheap: it runs for every request. */
export type Access = (headers: IncomingHttpHeaders) => Caller | Problem

/** Finds the caller that a kept key stands for; null when there is no such key. */
export type KeyLookup = (key: string) => Caller | null

const administrator: Caller = { name: 'admin', role: 'admin', tenant: null }
const thisMachine: Caller = { name: 'local', role: 'admin', tenant: null }

/**
 * Who knows the key of the configuration may do everything, who knows a kept key what that key may. Without a key in
 * the configuration whoever is on this machine may do everything, unless a key is given: then that key holds.
 */
export function accessBy(apiKey: string | null, kept: KeyLookup): Access {
  const isAdmin = apiKey === null ? () => false : comparison(apiKey)
  return (headers) => {
    const { authorization } = headers
    if (authorization === undefined && apiKey === null) return accessOfThisMachine(headers)
    const key = bearerOf(authorization)
    if (isAdmin(key)) return administrator
    return kept(key) ?? unauthorized(authorization)
  }
}

function comparison(apiKey: string): (key: string) => boolean {
  const expected = Buffer.from(apiKey)
  return (key) => {
    const given = Buffer.from(key)
    return given.length === expected.length && timingSafeEqual(given, expected)
  }
}

function unauthorized(authorization: string | undefined): Problem {
  const detail =
    authorization === undefined
      ? 'Send the API key as `Authorization: Bearer …`.'
      : 'The API key in the Authorization header is not valid.'
  return new Problem('unauthorized', detail, { headers: { 'www-authenticate': 'Bearer realm="posthorn"' } })
}

export function bearerOf(authorization: string | undefined): string {
  return /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1] ?? ''
}

const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

const forwardedPrefix = 'x-forwarded-'

/** A header that a proxy or a tunnel adds to what it passes on; null when there is none. */
function forwardingHeader(headers: IncomingHttpHeaders): string | null {
  for (const name in headers) {
    switch (name) {
      case 'forwarded':
      case 'via':
      case 'x-real-ip':
        return name
    }
    if (name.startsWith(forwardedPrefix)) return name
  }
  return null
}

/**
 * The name in Host must be loopback's, so that a web page cannot reach the server by DNS rebinding, and a page of
 * another origin is refused. What a proxy or a tunnel has passed on may be from anywhere.
 */
function accessOfThisMachine(headers: IncomingHttpHeaders): Caller | Problem {
  const { host = '', origin } = headers
  const forwarding = forwardingHeader(headers)
  if (forwarding !== null) {
    const detail = `Without POSTHORN_API_KEY only requests from this machine are served, and the ${forwarding.slice(0, 100)} header says that this one came through a proxy or a tunnel. Set POSTHORN_API_KEY, or point the tunnel at POSTHORN_PUBLIC_PORT, which serves /in/* and hubs alone.`
    return new Problem('forbidden', detail)
  }
  if (!loopbackHost.test(host)) {
    const detail = `Without POSTHORN_API_KEY only requests to a loopback name are served, and the Host header is ${JSON.stringify(host.slice(0, 100))}.`
    return new Problem('forbidden', detail)
  }
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`) {
    const detail = `Without POSTHORN_API_KEY requests of web pages elsewhere are refused, and the Origin header is ${JSON.stringify(origin.slice(0, 100))}.`
    return new Problem('forbidden', detail)
  }
  return thisMachine
}
