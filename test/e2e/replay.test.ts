import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { randomFrom } from '../support/random.ts'
import { replayRun } from '../support/replay-run.ts'
import { tempFolder } from '../support/sqlite.ts'

for (const rate of [150, null]) {
  const pace = rate === null ? 'as fast as it can' : `at ${rate} a second`
  test(`kill -9 in the middle of a replay ${pace}: none comes back twice, none is skipped, lanes keep their order`, async (t) => {
    const seed = Number(process.env.CRASH_SEED ?? Date.now() % 2 ** 31)
    t.diagnostic(`CRASH_SEED=${seed}`)
    const folder = await tempFolder()
    try {
      const database = join(folder.path, 'replay.db')
      const events = rate === null ? 600 : 150
      const report = await replayRun({ database, kills: 5, events, rate, random: randomFrom(seed) })
      t.diagnostic(`${report.deliveries} deliveries, ${report.killsDuringTheJob} kills while the job ran`)
      assert.deepEqual(report.problems, [])
      assert.ok(report.killsDuringTheJob > 0, 'the job was never interrupted')
    } finally {
      await folder.remove()
    }
  })
}
