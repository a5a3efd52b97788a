import { Buffer } from 'node:buffer'
import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { Problem } from './problem.ts'

/** Why this request may not be served; null when it may. Cheap: it runs for every request. */
export type Access = (headers: IncomingHttpHeaders) => Problem | null

/**
 * With a key, who knows the key may do everything. Without one the server is for this machine alone: the name in Host
 * must be loopback's, so that a web page cannot reach it by DNS rebinding, and a page of another origin is refused.
 */
export function accessBy(apiKey: string | null): Access {
  return apiKey === null ? accessOfThisMachine : accessByKey(apiKey)
}

function accessByKey(apiKey: string): Access {
  const expected = Buffer.from(apiKey)
  return ({ authorization }) => {
    const given = Buffer.from(bearerOf(authorization))
    if (given.length === expected.length && timingSafeEqual(given, expected)) return null
    const detail =
      authorization === undefined
        ? 'Send the API key as `Authorization: Bearer …`.'
        : 'The API key in the Authorization header is not valid.'
    return new Problem('unauthorized', detail, { headers: { 'www-authenticate': 'Bearer realm="posthorn"' } })
  }
}

function bearerOf(authorization: string | undefined): string {
  return /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1] ?? ''
}

const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i

function accessOfThisMachine({ host = '', origin }: IncomingHttpHeaders): Problem | null {
  if (!loopbackHost.test(host)) {
    const detail = `Without POSTHORN_API_KEY only requests to a loopback name are served, and the Host header is ${JSON.stringify(host.slice(0, 100))}.`
    return new Problem('forbidden', detail)
  }
  if (origin !== undefined && origin.toLowerCase() !== `http://${host.toLowerCase()}`) {
    const detail = `Without POSTHORN_API_KEY requests of web pages elsewhere are refused, and the Origin header is ${JSON.stringify(origin.slice(0, 100))}.`
    return new Problem('forbidden', detail)
  }
  return null
}
