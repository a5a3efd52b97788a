import { setTimeout as sleep } from 'node:timers/promises'
import { type DeliveryStatus, isSettled } from '../core/delivery.ts'
import type { ApiClient } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { CommandFailed, Undecided } from './failure.ts'
import { allItems } from './listing.ts'
import { counted, type Format, printItem, type Row, statusColour, textOf } from './output.ts'
import { printable, type Terminal } from './terminal.ts'
import { waitReason } from './wait-words.ts'

export type Waiting = Readonly<{ eventId: string; timeoutMs: number; format: Format }>

const firstPollMs = 50
const slowestPollMs = 1_000

/** Prints each delivery of the event when it is settled; throws when one is a dead letter or time runs out. */
export async function waitForDeliveries(terminal: Terminal, client: ApiClient, waiting: Waiting): Promise<void> {
  const { eventId, timeoutMs, format } = waiting
  const endsAt = performance.now() + timeoutMs
  const printed = new Set<unknown>()
  for (let pollMs = firstPollMs; ; pollMs = Math.min(pollMs * 1.5, slowestPollMs)) {
    const deliveries = await allItems(client, '/v1/deliveries', { event: eventId })
    for (const delivery of deliveries) {
      if (!isSettled(delivery.status as DeliveryStatus) || printed.has(delivery.id)) continue
      printed.add(delivery.id)
      if (format !== 'json') printSettled(terminal, delivery, format)
    }
    const open = deliveries.filter(({ status }) => !isSettled(status as DeliveryStatus))
    const leftMs = endsAt - performance.now()
    if (open.length === 0 || leftMs <= 0) {
      if (format === 'json') await printEvent(terminal, client, eventId, deliveries)
      return finish(terminal, deliveries, open, waiting)
    }
    await sleep(Math.min(pollMs, leftMs))
  }
}

function printSettled(terminal: Terminal, delivery: Row, format: Format): void {
  terminal.print(format === 'jsonl' ? JSON.stringify(delivery) : describe(terminal, delivery))
}

function describe(terminal: Terminal, delivery: Row): string {
  const { id, endpointId, status, attempts, reason, lastError } = delivery
  const colour = statusColour(delivery)
  const word = colour === null ? textOf(status) : terminal.paint(colour, textOf(status))
  const facts = [reason, waitReason(terminal, delivery), lastError]
  const why = facts.filter((part) => typeof part === 'string').join(': ')
  const tries = counted(Number(attempts), 'attempt')
  return `${textOf(id)}  ${word}  ${textOf(endpointId)}  ${tries}${why === '' ? '' : `  ${printable(why)}`}`
}

async function printEvent(
  terminal: Terminal,
  client: ApiClient,
  eventId: string,
  deliveries: readonly Row[],
): Promise<void> {
  const event = rowOf(await client.get(`/v1/events/${encodeURIComponent(eventId)}`))
  printItem(terminal, 'json', { ...event, deliveries })
}

function finish(
  terminal: Terminal,
  deliveries: readonly Row[],
  open: readonly Row[],
  { format, timeoutMs }: Waiting,
): void {
  const dead = deliveries.filter(({ status }) => status === 'failed' || status === 'dead_letter')
  for (const delivery of open) if (format === 'table') terminal.print(describe(terminal, delivery))
  const late = open.length === 0 ? null : `${counted(open.length, 'delivery')} not settled within ${timeoutMs / 1000} s`
  if (dead.length > 0) {
    const see = `${counted(dead.length, 'dead letter')}; see posthorn deliveries show ${dead[0]?.id}`
    throw new CommandFailed(late === null ? see : `${late}; ${see}`)
  }
  if (late !== null) throw new Undecided(`${late}; see posthorn deliveries show ${open[0]?.id}`)
}
