import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { openLog } from '../../src/log.ts'
import { Notices } from '../../src/notices.ts'
import { Upkeep } from '../../src/upkeep/upkeep.ts'
import { claimDue, ended, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, keptForAWeek, t0 } from '../support/builders.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'

test('upkeep forgets counts of dead letters that are older than two days, and keeps those of the last day', async (t) => {
  const folder = await tempFolder()
  const store = await openStoreFile(join(folder.path, 'posthorn.db'))
  t.after(async () => {
    await store.close()
    await folder.remove()
  })
  const hour = 3_600_000
  const endpoint = await withEndpoint(store)
  await store.append([anArrival(endpoint), anArrival(endpoint)])
  const [old, recent] = (await claimDue(store, endpoint)).claims
  let now = t0 + 72 * hour
  await store.commit([ended(old!, { settledAt: now - 49 * hour }), ended(recent!, { settledAt: now - 24 * hour })])
  const clock = { wall: () => now, steady: () => now, monotonic: () => now }
  const log = openLog({ level: 'silent', format: 'json' })
  const notices = new Notices((error) => assert.fail(String(error)))
  const settings = { ...keptForAWeek, afterMs: 0 }
  const upkeep = new Upkeep({
    store,
    endpoints: () => [],
    clock,
    log,
    notices,
    settings,
    dispatcher: { leads: true, goOnAt: () => {} },
  })
  now += 1
  const report = await upkeep.run()
  assert.equal(report.skipped, null)
  assert.equal(
    (await store.deadLettersSince(0)).reduce((sum, { count }) => sum + count, 0),
    1,
  )
})
