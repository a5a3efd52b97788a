import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { discardMatching } from '../../src/dispatch/discard.ts'
import type { Claim } from '../../src/store/pipeline-store.ts'
import { claimDue, ended, statusOf, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, t0 } from '../support/builders.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'
import { WatchedStore } from '../support/watched-store.ts'

test('what becomes a dead letter between two steps of a discard stays, however early it was received', async (t) => {
  const folder = await tempFolder()
  t.after(folder.remove)
  const real = await openStoreFile(join(folder.path, 'posthorn.db'))
  t.after(() => real.close())
  const endpoint = await withEndpoint(real)
  await real.append([anArrival(endpoint), anArrival(endpoint)])
  const [dead, underway] = (await claimDue(real, endpoint)).claims as [Claim, Claim]
  const now = t0 + 1_000
  await real.commit([ended(dead, { settledAt: now })])
  const watched = new WatchedStore(real)
  const fails = { promise: Promise.resolve() as Promise<unknown> }
  watched.onCall = () => {
    if (watched.calls('discard') !== 2) return
    const goOn = watched.hold('discard')
    fails.promise = real.commit([ended(underway, { settledAt: now + 1 })]).then(goOn)
  }
  const audited: number[] = []
  const given = { now, audit: (discarded: number) => audited.push(discarded) }
  assert.equal(await discardMatching(watched.store, {}, given), 1)
  await fails.promise
  assert.ok(watched.calls('discard') >= 2)
  assert.deepEqual(audited, [1])
  assert.equal(await statusOf(real, underway.delivery.id), 'failed')
})
