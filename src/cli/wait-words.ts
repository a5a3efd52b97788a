import type { WaitsFor } from '../core/waiting.ts'
import { instantText, type Row, textOf } from './output.ts'
import type { Terminal } from './terminal.ts'

type Facts = Readonly<{ id: string; endpointId: string; at: string | null }>

const words: Readonly<Record<string, (delivery: Facts) => string>> = {
  all_paused: () => 'all delivery is paused; to resume: posthorn dispatch resume',
  paused: ({ endpointId }) => `its endpoint is paused; to resume: posthorn endpoints resume ${endpointId}`,
  disabled: ({ endpointId }) => `its endpoint is disabled; to enable: posthorn endpoints resume ${endpointId}`,
  handler: () => 'no running code has registered its handler',
  hub: () => 'the hub of its endpoint is not connected; to see hubs: posthorn relays list',
  route: () => 'the hub of its endpoint does not have its route; to see routes: posthorn relays show <relay>',
  backoff: ({ id, at }) => `next try ${at ?? 'now'} (retry policy); to try now: posthorn deliveries retry ${id}`,
  hold: ({ endpointId, at }) =>
    `its endpoint sent Retry-After, next try ${at ?? 'now'}; to try now: posthorn breakers reset ${endpointId}`,
  breaker: ({ endpointId, at }) =>
    `its endpoint is down, next probe ${at ?? 'now'}; to try now: posthorn breakers reset ${endpointId}`,
  lane: () => 'another delivery is ahead of it in its lane',
} satisfies Record<WaitsFor, (delivery: Facts) => string>

/** Why a delivery is not tried now, and the command that ends it. null: it is its turn, or it does not wait. */
export function waitReason(terminal: Terminal, delivery: Row): string | null {
  const { waitsFor, waitsUntil } = delivery
  if (typeof waitsFor !== 'string') return null
  const isAhead = typeof waitsUntil === 'string' && Date.parse(waitsUntil) > Date.now()
  const at = isAhead ? instantText(terminal, waitsUntil).replace(/^(?=\d)/, 'at ') : null
  const facts = { id: textOf(delivery.id), endpointId: textOf(delivery.endpointId), at }
  return words[waitsFor]?.(facts) ?? waitsFor
}
