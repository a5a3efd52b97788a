import { type Relay, relayKeyPrefix, relayPath } from '../core/relay.ts'
import { type Logger, SeldomLog } from '../log.ts'
import type { RelayGate } from '../transports/relay-gate.ts'
import { bearerOf } from './auth.ts'
import { rawAnswer, type Upgrades } from './listening.ts'
import { Problem } from './problem.ts'
import type { Api } from './route.ts'

export type RelayPathParts = Readonly<{
  /** The relay that a key stands for; null: there is none. */
  find: (key: string) => Relay | null
  gate: Pick<RelayGate, 'admit'>
  isStopping: () => boolean
  log: Logger
  now: () => number
}>

const hubKeyLengthMax = 128
const retryAfterSeconds = 5
const toldEveryMs = 10_000

/** Made once: whoever floods us with upgrades costs a lookup and a write each. */
const refusals = {
  noKey: rawAnswer(unauthorized('Send the key of the relay as `Authorization: Bearer phr_…`.')),
  badKey: rawAnswer(unauthorized('The key in the Authorization header is none of a relay.')),
  stopping: rawAnswer(
    new Problem('shutting_down', 'Posthorn is shutting down; come back in a while.', {
      headers: { 'retry-after': String(retryAfterSeconds) },
    }),
  ),
}

/** `/v1/relay`, where hubs connect: who has the key of a relay gets a link, everybody else an answer and no more. */
export function openRelayPath({ find, gate, isStopping, log, now }: RelayPathParts): Upgrades {
  const seldom = new SeldomLog(log, toldEveryMs, now)
  const relayOrRefusal = (key: string): Relay | keyof typeof refusals => {
    if (isStopping()) return 'stopping'
    if (key === '') return 'noKey'
    // Keys of the API begin otherwise, and no hub comes in with one.
    if (!key.startsWith(relayKeyPrefix) || key.length > hubKeyLengthMax) return 'badKey'
    return find(key) ?? 'badKey'
  }
  return {
    wants: ({ url = '', headers }) =>
      headers.upgrade?.toLowerCase() === 'websocket' && (url === relayPath || url.startsWith(`${relayPath}?`)),
    take(request, socket, head) {
      const found = relayOrRefusal(bearerOf(request.headers.authorization))
      if (typeof found !== 'string') {
        gate.admit(found, { request, socket, head })
        return
      }
      seldom.warn('', { why: found }, 'relay.refused')
      // Not only our half: a client that keeps its own open would keep the connection.
      socket.end(refusals[found], () => socket.destroy())
    },
  }
}

/** What a request for the same path gets that does not ask for a WebSocket; and how the path is described. */
export function relayPathRoute(api: Api): void {
  api.route({
    method: 'GET',
    url: relayPath,
    name: 'connectHub',
    summary: 'Where a hub connects by WebSocket, with the key of its relay (docs/relay-protocol.md)',
    tag: 'relays',
    role: null,
    responses: { 101: null },
    problems: ['unauthorized', 'upgrade_required', 'shutting_down'],
    handler: () => {
      const headers = { upgrade: 'websocket', connection: 'upgrade' }
      throw new Problem('upgrade_required', 'Hubs connect here by WebSocket: ask for an upgrade.', { headers })
    },
  })
}

function unauthorized(detail: string): Problem {
  return new Problem('unauthorized', detail, { headers: { 'www-authenticate': 'Bearer realm="posthorn relay"' } })
}
