import { setTimeout as pause } from 'node:timers/promises'
import { concurrency, createEndpoints, deadLetters, endpoints, fitful, settled } from './crash-scene.ts'
import { Crowd } from './crowd.ts'
import { brokenPromises } from './ledger.ts'
import { openLedgerSink } from './ledger-sink.ts'
import { randomFrom } from './random.ts'
import { freePort, startServer } from './server-process.ts'

export type CrashOptions = Readonly<{ database: string; kills: number; senders: number; seed: number }>

export type CrashReport = Readonly<{
  problems: readonly string[]
  acknowledged: number
  arrivals: number
  dead: number
  restartsMs: readonly number[]
}>

/**
 * Sends events to a real server that is killed again and again, and keeps two ledgers: what the sender was told and
 * what the sink got. The sink fails now and then, by a fixed pattern, so that retries are under way at the crashes.
 */
export async function crashRun(options: CrashOptions): Promise<CrashReport> {
  const random = randomFrom(options.seed)
  const sink = await openLedgerSink(endpoints, fitful)
  const port = await freePort()
  const start = () => startServer({ database: options.database, port })
  let server = await start()
  await createEndpoints(server.url, sink.url)
  const crowd = new Crowd(server.url, options.senders)
  const restartsMs: number[] = []
  for (let kill = 0; kill < options.kills; kill++) {
    // Some lives end before the first answer, some in the middle of the traffic.
    if (random() < 0.75) await crowd.acknowledged(1 + Math.floor(random() * 150))
    await pause(random() * 90)
    await server.kill()
    const killedAt = performance.now()
    server = await start()
    restartsMs.push(Math.round(performance.now() - killedAt))
  }
  await crowd.finish()
  await settled(server)
  const dead = await deadLetters(server)
  await server.stop()
  await sink.close()
  const history = {
    sent: crowd.sent,
    arrived: sink.arrived,
    endpoints,
    dead,
    overlaps: sink.overlaps,
    // On the wire, and as many again that are answered and not yet on disk.
    inFlightAtCrashes: options.kills * 2 * concurrency * Object.keys(endpoints).length,
  }
  const acknowledged = crowd.sent.filter((event) => event.eventId !== null).length
  return {
    problems: brokenPromises(history),
    acknowledged,
    arrivals: sink.arrived.length,
    dead: dead.length,
    restartsMs,
  }
}
