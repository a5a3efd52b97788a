import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { openLog } from '../../src/log.ts'
import { KeyPruning } from '../../src/upkeep/key-pruning.ts'
import { anArrival, anEndpoint, t0 } from '../support/builders.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'

test('keys that have ended are deleted, all of them, and the others stay', async () => {
  const folder = await tempFolder()
  const store = await openStoreFile(join(folder.path, 'posthorn.db'))
  const endpoint = anEndpoint()
  await store.putEndpoint(endpoint)
  const keyed = (key: string, expiresAt: number) =>
    anArrival(endpoint, { idempotency: { scope: 'tenant:default', key, fingerprint: 'f', expiresAt } })
  await store.append(Array.from({ length: 2_500 }, (_, n) => keyed(`old-${n}`, t0 + 1)))
  await store.append([keyed('young', t0 + 100)])
  const log = openLog({ level: 'silent', format: 'json' })
  const pruning = new KeyPruning({ store, log, now: () => t0 + 50 })
  await pruning.run()
  assert.equal(await store.pruneKeys(t0 + 50, 10), 0)
  assert.equal(await store.pruneKeys(t0 + 100, 10), 1)
  await pruning.stop()
  await store.close()
  await folder.remove()
})
