import type { Crowd } from './crowd.ts'
import { brokenPromises } from './ledger.ts'
import type { LedgerSink } from './ledger-sink.ts'
import type { RelayReads } from './relay-reads.ts'

export type RelayLedger = Readonly<{
  problems: readonly string[]
  acknowledged: number
  arrivals: number
  dead: number
  /** Arrivals of what had been delivered before. */
  repeats: number
  /** Arrivals under the number of a try that had arrived before. */
  uncounted: number
}>

export type RelayRun = Readonly<{
  sink: LedgerSink
  crowds: readonly Crowd[]
  hubKills: number
  /** Links that were lost, for whatever reason. */
  breaks: number
}>

/**
 * When all senders are done and nothing waits any more: every accepted event was delivered in order to the local target,
 * or is dead at the edge. A repeat is only allowed for the one try that was under way when a hub was killed; a failed try
 * that the edge never heard of, for each link that was lost.
 */
export async function relayLedger(
  scene: Pick<RelayReads, 'settled' | 'listed'>,
  { sink, crowds, hubKills, breaks }: RelayRun,
): Promise<RelayLedger> {
  await Promise.all(crowds.map((crowd) => crowd.finish()))
  await scene.settled()
  const dead = [...(await scene.listed('failed')), ...(await scene.listed('dead_letter'))]
  const sent = crowds.flatMap((crowd) => crowd.sent)
  const { arrived, overlaps } = sink
  const problems = brokenPromises({
    sent,
    arrived,
    endpoints: { home: 'endpoint' },
    dead,
    overlaps,
    inFlightAtCrashes: hubKills,
  })
  const ends = arrived.filter(({ statusCode }) => statusCode < 300)
  const repeats = ends.length - new Set(ends.map(({ deliveryId }) => deliveryId)).size
  const uncounted = arrived.length - new Set(arrived.map((one) => `${one.deliveryId} ${one.attempt}`)).size
  if (uncounted > breaks) problems.push(`uncounted: ${uncounted} tries came again under their number`)
  return { problems, acknowledged: sent.length, arrivals: arrived.length, dead: dead.length, repeats, uncounted }
}
