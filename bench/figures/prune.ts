import { DatabaseSync } from 'node:sqlite'
import { closedPort, prepare } from '../backlog.ts'
import type { Figure, Trial } from '../bench.ts'
import { until } from '../clock.ts'
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
import { settled } from '../usage.ts'

const restMsMax = 60_000
const dayMs = 86_400_000

/** Figure 11: upkeep deletes a million old deliveries, and what a healthy endpoint notices of it. */
export const prune: Figure = {
  name: 'prune',
  title: 'p99 of a healthy endpoint while upkeep deletes old deliveries',
  async measure(bench) {
    const old = bench.quick ? 50_000 : 1_000_000
    const { folder, file } = await prepare(bench, { parkedUrl: await closedPort(), parked: old })
    makeOld(file)
    // Upkeep begins by itself, when the runs without it are over.
    const afterS = bench.quick ? 45 : 120
    const env = { POSTHORN_UPKEEP_AFTER: `${afterS}s` }
    const posthorn = await Posthorn.start(bench.rig, { folder, title: 'posthorn', env })
    await healthyRun(bench, posthorn, 2)
    const runsEachSide = bench.quick ? 1 : 6
    const before = await healthyRuns(bench, posthorn, runsEachSide)
    await settled(posthorn.pid, restMsMax)
    const early = await posthorn.upkeep()
    if (early.running || early.last !== null) throw new Error('upkeep began before the runs without it were over')
    await until('upkeep', (afterS + 30) * 1_000, async () => (await posthorn.upkeep()).running)
    const during = await healthyRunsWhile(bench, posthorn, async () => (await posthorn.upkeep()).running)
    const { last } = await posthorn.upkeep()
    if (last === null || last.deliveries < old) throw new Error(`${last?.deliveries} of ${old} deliveries were deleted`)
    if (during.length === 0) throw new Error('upkeep was over before anything could be measured')
    await settled(posthorn.pid, restMsMax)
    const after = await healthyRuns(bench, posthorn, runsEachSide)
    await posthorn.stop()
    return judge({
      without: [...before, ...after],
      during,
      old,
      tookS: last.tookMs / 1_000,
      pagesFreed: last.pagesFreed,
    })
  },
}

/** Every parked delivery as if it had been delivered a month ago. */
function makeOld(file: string): void {
  const db = new DatabaseSync(file)
  db.exec(`
    UPDATE events SET received_at = received_at - ${30 * dayMs} WHERE type = 'bench.parked';
    UPDATE deliveries SET status = 'delivered', attempts = 1, tries_in_budget = 1, due_at = NULL,
      received_at = received_at - ${30 * dayMs}, settled_at = received_at - ${30 * dayMs}, last_attempt_at = received_at - ${30 * dayMs}
    WHERE status = 'pending'`)
  db.close()
}

type Measured = Readonly<{
  without: readonly Trial[]
  during: readonly Trial[]
  old: number
  tookS: number
  pagesFreed: number
}>

function judge({ without, during, old, tookS, pagesFreed }: Measured) {
  const disturbance = {
    without: { title: 'without upkeep', trials: without },
    during: { title: `while ${number(old)} are deleted`, trials: during },
  }
  const what = 'median p99 during upkeep / median p99 before and after'
  const verdict = disturbanceVerdict(disturbance, what)
  return {
    tables: [disturbanceTable(disturbance)],
    verdicts: [verdict],
    notes: [
      `Open loop, ${perSecond}/s. ${number(old)} events with a delivery each were deleted in ${number(tookS)} s, and ${number(pagesFreed)} pages given back; ${ownSpread(disturbance)}.`,
    ],
    data: { without, during, tookS, ratio: verdict.value, pagesFreed },
  }
}
