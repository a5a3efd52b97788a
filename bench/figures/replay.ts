import { DatabaseSync } from 'node:sqlite'
import { closedPort, prepare } from '../backlog.ts'
import type { Figure, Trial } from '../bench.ts'
import {
  disturbanceTable,
  disturbanceVerdict,
  healthyRun,
  healthyRuns,
  healthyRunsWhile,
  ownSpread,
  perSecond,
} from '../healthy.ts'
import { Posthorn } from '../posthorn.ts'
import { number } from '../report.ts'
import { memoryOf, settled } from '../usage.ts'

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
    // A million deliveries are also something for upkeep to go through, which is not what is measured.
    const env = { POSTHORN_UPKEEP_AFTER: '2h' }
    const posthorn = await Posthorn.start(bench.rig, { folder, title: 'posthorn', env })
    await healthyRun(bench, posthorn, 2)
    const runsEachSide = bench.quick ? 1 : 6
    const before = await healthyRuns(bench, posthorn, runsEachSide)
    await settled(posthorn.pid, restMsMax)
    const memoryBefore = memoryOf(posthorn.pid)
    const startedAt = performance.now()
    const id = await posthorn.replay({ endpoint: parkedId })
    const isRunning = async () => (await posthorn.replayed(id)).status === 'running'
    const during = await healthyRunsWhile(bench, posthorn, isRunning)
    const tookS = (performance.now() - startedAt) / 1000
    const { status, requeued } = await posthorn.replayed(id)
    if ((status !== 'finished' && status !== 'settled') || requeued !== dead)
      throw new Error(`${requeued} of ${dead} requeued, and it is ${status}`)
    const memoryAfter = memoryOf(posthorn.pid)
    await settled(posthorn.pid, restMsMax)
    const after = await healthyRuns(bench, posthorn, runsEachSide)
    await posthorn.stop()
    return judge({
      without: [...before, ...after],
      during,
      dead,
      tookS,
      moreMb: memoryAfter.peakMb - memoryBefore.peakMb,
    })
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

type Measured = Readonly<{
  without: readonly Trial[]
  during: readonly Trial[]
  dead: number
  tookS: number
  moreMb: number
}>

function judge({ without, during, dead, tookS, moreMb }: Measured) {
  const disturbance = {
    without: { title: 'without a replay', trials: without },
    during: { title: `while ${number(dead)} are replayed`, trials: during },
  }
  const what = 'median p99 during the replay / median p99 before and after'
  const verdict = disturbanceVerdict(disturbance, what)
  return {
    tables: [disturbanceTable(disturbance)],
    verdicts: [
      verdict,
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
      `Open loop, ${perSecond}/s. ${number(dead)} dead letters were brought back in ${number(tookS)} s, ${number(dead / tookS)} a second; their endpoint is paused, so that only the replay is measured; ${ownSpread(disturbance)}.`,
    ],
    data: { without, during, tookS, ratio: verdict.value, moreMb },
  }
}
