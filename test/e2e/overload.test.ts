import assert from 'node:assert/strict'
import { test } from 'node:test'
import { noSlowDisk, runOverload } from '../support/overload-run.ts'

test('many clients, a dead endpoint and a slow disk: bounded memory, clean refusals, nothing lost', {
  skip: noSlowDisk,
}, async () => {
  const settings = { clients: 200, requestsPerClient: 3, bodyBytes: 100_000, fsyncMs: 40, heapMb: 128 }
  const result = await runOverload(settings)
  assert.deepEqual(result.unclean, [])
  assert.deepEqual(result.lost, [])
  assert.ok(result.accepted > 0 && result.refused > 0, JSON.stringify(result))
  assert.equal(result.accepted + result.refused + result.tooSlow, settings.clients * settings.requestsPerClient)
  assert.ok(result.peakRssMb < 350, `${result.peakRssMb} MB`)
})
