import { DatabaseSync } from 'node:sqlite'
import { closedPort, prepare } from '../backlog.ts'
import { type Bench, type Figure, type Trial, trial } from '../bench.ts'
import { sleep } from '../clock.ts'
import { Posthorn } from '../posthorn.ts'
import { number } from '../report.ts'
import { median } from '../statistics.ts'
import { memoryOf, settled } from '../usage.ts'

const perSecond = 200
const secondsPerRun = 5
const runsMax = 60
const restMsMax = 60_000
const memoryMbMax = 100

/** Figure 10: a million dead letters are brought back, and what a healthy endpoint and the memory notice of it. */
export const replay: Figure = {
  name: 'replay',
  title: 'p99 of a healthy endpoint, and memory, while dead letters are replayed',
  async measure(bench) {
    const dead = bench.quick ? 50_000 : 1_000_000
    const { folder, file, parkedId } = await prepare(bench, { parkedUrl: await closedPort(), parked: dead })
    makeDead(file)
    const posthorn = await Posthorn.start(bench.rig, { folder, title: 'posthorn' })
    await openLoop(bench, posthorn, 2)
    const before: Trial[] = []
    for (let run = 0; run < (bench.quick ? 2 : 6); run++) before.push(await openLoop(bench, posthorn, secondsPerRun))
    await settled(posthorn.pid, restMsMax)
    const memoryBefore = memoryOf(posthorn.pid)
    const startedAt = performance.now()
    const id = await posthorn.replay({ endpoint: parkedId })
    const during: Trial[] = []
    while ((await posthorn.replayed(id)).status === 'running' && during.length < runsMax) {
      during.push(await openLoop(bench, posthorn, secondsPerRun))
    }
    const tookS = (performance.now() - startedAt) / 1000
    const { status, replayed } = await posthorn.replayed(id)
    if (status !== 'finished' || replayed !== dead)
      throw new Error(`${replayed} of ${dead} replayed, and it is ${status}`)
    const memoryAfter = memoryOf(posthorn.pid)
    await sleep(1_000)
    await posthorn.stop()
    return judge({ before, during, dead, tookS, moreMb: memoryAfter.peakMb - memoryBefore.peakMb })
  },
}

/** Every parked delivery as it would be after its last try. */
function makeDead(file: string): void {
  const db = new DatabaseSync(file)
  db.exec(`
    UPDATE deliveries SET status = 'failed', reason = 'exhausted', last_error = 'HTTP 503', attempts = 5,
      tries_in_budget = 5, due_at = NULL, settled_at = received_at, last_attempt_at = received_at
    WHERE status = 'pending'`)
  db.close()
}

function openLoop(bench: Bench, server: Posthorn, seconds: number): Promise<Trial> {
  const loop = { kind: 'open', perSecond } as const
  return trial(bench, server, { events: perSecond * seconds, connections: 64, loop, delivered: true })
}

type Measured = Readonly<{
  before: readonly Trial[]
  during: readonly Trial[]
  dead: number
  tookS: number
  moreMb: number
}>

function judge({ before, during, dead, tookS, moreMb }: Measured) {
  const p99 = (trials: readonly Trial[]) => trials.map((each) => each.arrivalMs?.p99 ?? Number.NaN)
  const beyond = median(p99(during)) / Math.max(...p99(before))
  const row = (title: string, trials: readonly Trial[]) => [
    title,
    p99(trials).slice(0, 10).map(number).join(' '),
    number(median(p99(trials))),
    number(median(trials.map((each) => each.arrivalMs?.p50 ?? Number.NaN))),
  ]
  return {
    tables: [
      {
        columns: ['healthy endpoint', 'arrival p99 ms of each run', 'median', 'arrival p50 ms'],
        rows: [row('before the replay', before), row(`while ${number(dead)} are replayed`, during)],
      },
    ],
    verdicts: [
      {
        what: 'median p99 during the replay / worst p99 before (beyond the A/A spread)',
        value: beyond,
        wanted: 'at most' as const,
        must: 1.5,
        goal: 1.2,
        unit: '',
      },
      {
        what: 'peak memory after the replay − before',
        value: moreMb,
        wanted: 'at most' as const,
        must: memoryMbMax,
        goal: null,
        unit: ' MB',
      },
    ],
    notes: [
      `Open loop, ${perSecond}/s. ${number(dead)} dead letters were brought back in ${number(tookS)} s, ${number(dead / tookS)} a second; their endpoint is paused, so that only the replay is measured.`,
    ],
    data: { before, during, tookS, beyond, moreMb },
  }
}
