import { edgeAddress } from '../core/edge-address.ts'
import { PosthornError } from '../core/errors.ts'
import { relayNameProblem, routeTargetProblem } from '../core/relay.ts'
import type { Logger } from '../log.ts'
import { httpUrl } from '../transports/http/request.ts'
import type { HubEvent } from './hub-events.ts'

export type HubSettings = Readonly<{
  /** Where the edge is: ws, wss, http or https, with or without a path. */
  edge: string
  key: string
  /** What the edge calls a target, and the URL where it is. */
  routes: ReadonlyMap<string, string>
  memoryFile: string
  /** Certificates to trust besides the usual ones, as PEM. */
  ca?: string
  /** The URL of an HTTP proxy to go through (`proxyFor` in core/proxy.ts picks it); null and not set: none. */
  proxy?: string | null
  compress?: boolean
  /** Tries under way at once, per endpoint. */
  concurrency?: number
  software: string
  log: Logger
  onEvent?: (event: HubEvent) => void
  /** Who watches prints every try: a failed one is no warning of the log then. */
  showsTries?: boolean
  timing?: Partial<HubTiming>
}>

export type HubTiming = Readonly<{
  /** The hub pings with every fourth beat, and counts in beats how long nothing came. */
  beatMs: number
  /** What the edge says counts, up to this. */
  silenceMsMax: number
  /** For the connection, and then again for the edge's first word. */
  connectMsMax: number
  backoffMsMin: number
  backoffMsMax: number
  /** A link that lasted for this long was a good one: the next wait is the shortest. */
  goodLinkMs: number
  /** What tries under way get when the hub stops. */
  graceMs: number
  /** How often it is tried to write what could not be written. */
  rewriteEveryMs: number
}>

export const timingDefault: HubTiming = {
  beatMs: 2_500,
  silenceMsMax: 25_000,
  connectMsMax: 10_000,
  backoffMsMin: 500,
  backoffMsMax: 30_000,
  goodLinkMs: 10_000,
  graceMs: 10_000,
  rewriteEveryMs: 1_000,
}

/** Throws `invalid`, which lists everything that is wrong. */
export function checkSettings(settings: HubSettings): void {
  const problems = problemsOf(settings)
  if (problems.length > 0) {
    throw new PosthornError('invalid', ['The settings of the hub are not valid:', ...problems].join('\n  '))
  }
}

function problemsOf({ edge, key, routes, proxy }: HubSettings): readonly string[] {
  const problems: string[] = []
  const address = edgeAddress(edge)
  if ('problem' in address) problems.push(`edge ${address.problem}`)
  if (!/^[\x21-\x7e]+$/.test(key)) problems.push('key must be the one that `posthorn relays create` has shown')
  if (routes.size === 0) problems.push('routes must have at least one: github=http://127.0.0.1:8123/hook')
  for (const [name, url] of routes) {
    const wrongName = relayNameProblem(name)
    if (wrongName !== null) problems.push(`the name of the route ${JSON.stringify(name)} ${wrongName}`)
    const wrongTarget = routeTargetProblem(url)
    if (wrongTarget !== null) problems.push(`the route ${name} ${wrongTarget}`)
  }
  if (proxy && typeof httpUrl(proxy) === 'string') problems.push('proxy must be an http:// or https:// address')
  return problems
}
