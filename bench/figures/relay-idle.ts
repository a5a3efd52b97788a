import type { Bench, Figure } from '../bench.ts'
import { Posthorn } from '../posthorn.ts'
import { number } from '../report.ts'
import { memoryOf, settled } from '../usage.ts'

const restMsMax = 30_000
const connectMsMax = 180_000
const creationsAtOnce = 32

/** Figure 13: what hubs with nothing to do cost the edge, against `ws` alone with as many connections. */
export const relayIdle: Figure = {
  name: 'relay-idle',
  title: 'memory of an edge per idle hub, against WebSockets alone',
  async measure(bench) {
    const count = bench.quick ? 1_000 : 10_000
    const env = { POSTHORN_CONNECTIONS_MAX: String(count + 1_000) }
    const posthorn = await Posthorn.start(bench.rig, { folder: bench.rig.tempDir(), env })
    const before = await atRest(posthorn.pid)
    const keys = await createRelays(posthorn, count)
    const url = `ws://127.0.0.1:${posthorn.port}/v1/relay`
    const ours = (await connected(bench, posthorn.pid, { url, keys })) - before
    await posthorn.stop()
    const plain = await bench.rig.webSockets()
    const plainUrl = await plain.call('listen', null)
    const plainBefore = await atRest(plain.pid)
    const theirs = (await connected(bench, plain.pid, { url: plainUrl, keys })) - plainBefore
    const kib = (mb: number) => (mb * 1024) / count
    return {
      tables: [
        {
          columns: ['server', 'hubs', 'MB more', 'KiB per hub'],
          rows: [
            ['posthorn', number(count), number(ours), number(kib(ours))],
            ['ws alone', number(count), number(theirs), number(kib(theirs))],
          ],
        },
      ],
      verdicts: [
        {
          what: 'memory per idle hub, Posthorn / ws alone',
          value: ours / theirs,
          wanted: 'at most',
          must: 3,
          goal: 1.5,
          unit: '',
        },
      ],
      notes: [
        'Resident memory at rest, with the links up and pings going, less before. With Posthorn the relays are made in between.',
      ],
      data: { count, ours, theirs },
    }
  },
}

async function createRelays(posthorn: Posthorn, count: number): Promise<readonly string[]> {
  const keys: string[] = []
  let next = 0
  const creating = async () => {
    for (let at = next++; at < count; at = next++) keys.push(await posthorn.createRelay(`idle-${at}`))
  }
  await Promise.all(Array.from({ length: creationsAtOnce }, creating))
  return keys
}

/** In MB, with all links up. */
async function connected(
  { rig }: Bench,
  pid: number,
  links: Readonly<{ url: string; keys: readonly string[] }>,
): Promise<number> {
  const hubs = await rig.idleHubs()
  const open = await hubs.call('connect', links, connectMsMax)
  if (open !== links.keys.length) throw new Error(`${open} of ${links.keys.length} links were opened`)
  const usedMb = await atRest(pid)
  await hubs.call('close', null)
  return usedMb
}

async function atRest(pid: number): Promise<number> {
  await settled(pid, restMsMax)
  return memoryOf(pid).rssMb
}
