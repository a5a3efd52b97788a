import assert from 'node:assert/strict'
import { test } from 'node:test'
import { noSlowDisk, runOverload } from '../support/overload-run.ts'

test('9,500 clients at once, a dead endpoint and a slow disk: bounded memory, clean refusals, nothing lost', {
  skip: noSlowDisk,
}, async (t) => {
  const settings = { clients: 9_500, requestsPerClient: 3, bodyBytes: 20_000, fsyncMs: 100, heapMb: 256 }
  const result = await runOverload(settings)
  t.diagnostic(JSON.stringify(result))
  assert.deepEqual(result.unclean.slice(0, 5), [])
  assert.deepEqual(result.lost, [])
  assert.ok(result.accepted > 0 && result.refused > 0, JSON.stringify(result))
  assert.equal(result.accepted + result.refused + result.tooSlow, settings.clients * settings.requestsPerClient)
  assert.ok(result.peakRssMb < 900, `${result.peakRssMb} MB`)
})
