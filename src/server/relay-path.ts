import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
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
  /** Reads what other processes have set up; null: there are no others. */
  refresh: (() => Promise<void>) | null
  gate: Pick<RelayGate, 'admit'>
  isStopping: () => boolean
  log: Logger
  now: () => number
}>

const hubKeyLengthMax = 128
const retryAfterSeconds = 5
const toldEveryMs = 10_000
/** Unknown keys cost at most one read of the database in this time. */
const lookEveryMs = 1_000

/** Made once: whoever floods us with upgrades costs a lookup and a write each. */
const refusals = {
  noKey: rawAnswer(unauthorized('Send the key of the relay as `Authorization: Bearer phr_…`.')),
  badKey: rawAnswer(unauthorized('The key in the Authorization header is none of a relay.')),
  unknown: rawAnswer(
    new Problem('store_unavailable', 'Whether this key is one of a relay cannot be read now; come back in a while.', {
      headers: { 'retry-after': String(retryAfterSeconds) },
    }),
  ),
  stopping: rawAnswer(
    new Problem('shutting_down', 'Posthorn is shutting down; come back in a while.', {
      headers: { 'retry-after': String(retryAfterSeconds) },
    }),
  ),
}

/** `/v1/relay`, where hubs connect: who has the key of a relay gets a link, everybody else an answer and no more. */
export function openRelayPath({ find, refresh, gate, isStopping, log, now }: RelayPathParts): Upgrades {
  const seldom = new SeldomLog(log, toldEveryMs, now)
  const look = refresh === null ? null : lookInTurn(refresh)
  const relayOrRefusal = (key: string): Relay | keyof typeof refusals => {
    if (isStopping()) return 'stopping'
    if (key === '') return 'noKey'
    return (isHubKey(key) ? find(key) : null) ?? 'badKey'
  }
  const settle = (
    found: Relay | keyof typeof refusals,
    ...[request, socket, head]: [IncomingMessage, Duplex, Buffer]
  ): void => {
    if (typeof found !== 'string') {
      gate.admit(found, { request, socket, head })
      return
    }
    seldom.warn('', { why: found }, 'relay.refused')
    // Not only our half: a client that keeps its own open would keep the connection.
    socket.end(refusals[found], () => socket.destroy())
  }
  return {
    wants: ({ url = '', headers }) =>
      headers.upgrade?.toLowerCase() === 'websocket' && (url === relayPath || url.startsWith(`${relayPath}?`)),
    take(request, socket, head) {
      const key = bearerOf(request.headers.authorization)
      const found = relayOrRefusal(key)
      if (found !== 'badKey' || look === null || !isHubKey(key)) settle(found, request, socket, head)
      else {
        // A hub that is refused stays away for good, and another process may have made its key a moment ago.
        look().then(
          () => settle(relayOrRefusal(key), request, socket, head),
          () => settle('unknown', request, socket, head),
        )
      }
    },
  }
}

/** Keys of the API begin otherwise, and no hub comes in with one. */
function isHubKey(key: string): boolean {
  return key.startsWith(relayKeyPrefix) && key.length <= hubKeyLengthMax
}

/** One call for all who come while it is waited for. */
function lookInTurn(refresh: () => Promise<void>): () => Promise<void> {
  let lookedAt = Number.NEGATIVE_INFINITY
  let next: Promise<void> | null = null
  return () => {
    next ??= pause(Math.max(0, lookedAt + lookEveryMs - performance.now()), undefined, { ref: false }).then(() => {
      next = null
      lookedAt = performance.now()
      return refresh()
    })
    return next
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
