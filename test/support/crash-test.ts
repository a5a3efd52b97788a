import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { crashRun } from './crash-run.ts'
import { tempFolder } from './sqlite.ts'

/** Kills a real server at random points under load and checks the ledgers. `CRASH_SEED` repeats a run's points. */
export async function crashTest(t: TestContext, size: { kills: number; senders: number }): Promise<void> {
  const seed = Number(process.env.CRASH_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`CRASH_SEED=${seed}`)
  const folder = await tempFolder()
  try {
    const report = await crashRun({ ...size, seed, database: join(folder.path, 'crash.db') })
    const { acknowledged, arrivals, dead, restartsMs, problems } = report
    t.diagnostic(`${acknowledged} acknowledged, ${arrivals} arrivals, ${dead} dead letters`)
    t.diagnostic(`restarts took ${Math.min(...restartsMs)}–${Math.max(...restartsMs)} ms until it listened`)
    assert.deepEqual(problems, [])
    assert.ok(acknowledged > 10 * size.kills, 'the run was too small to mean anything')
    assert.ok(dead > 0, 'no dead letter was among them')
  } finally {
    await folder.remove()
  }
}
