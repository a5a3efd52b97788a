import { createServer } from 'node:net'
import type { Bench } from './bench.ts'
import { multiplyPending } from './fill.ts'
import { firstEventNumber } from './http-bytes.ts'
import { databaseFile, Posthorn } from './posthorn.ts'
import { root } from './rig.ts'

/** A database with a healthy endpoint for `bench.event` and one that everything of `bench.parked` waits for. */
export type Prepared = Readonly<{ folder: string; file: string; parkedId: string; parked: number }>

/**
 * The server itself makes the endpoints and keeps one event for the parked one; that one is then copied. Without a
 * backlog there is just the one, and all else is the same.
 */
export async function prepare(
  bench: Bench,
  { parkedUrl, parked, checkout = root }: { parkedUrl: string; parked: number; checkout?: string },
): Promise<Prepared> {
  const folder = bench.rig.tempDir()
  const file = databaseFile(folder)
  const posthorn = await Posthorn.start(bench.rig, { folder, checkout })
  await posthorn.createEndpoint({ url: bench.sink.url, types: ['bench.event'], concurrency: 64 })
  const parkedId = await posthorn.createEndpoint({ url: parkedUrl, types: ['bench.parked'], concurrency: 64 })
  await posthorn.pauseEndpoint(parkedId)
  await posthorn.send('bench.parked', { text: 'x'.repeat(174), n: firstEventNumber })
  await posthorn.stop()
  if (parked > 1) {
    const startedAt = performance.now()
    await multiplyPending(file, parked - 1)
    bench.say(`  ${parked} deliveries parked in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  }
  return { folder, file, parkedId, parked }
}

/** An address of this machine where nobody listens. */
export async function closedPort(): Promise<string> {
  const server = createServer()
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.once('error', reject)
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    resolve(address !== null && typeof address === 'object' ? address.port : 0)
  })
  const port = await promise
  await new Promise((done) => server.close(done))
  return `http://127.0.0.1:${port}/`
}
