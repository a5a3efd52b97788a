import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryBus } from '../../src/shared-state/memory-bus.ts'
import { SealedBus } from '../../src/shared-state/sealed-bus.ts'
import { createSecretBox } from '../../src/store/secret-box.ts'
import { busContract, listening } from '../contracts/bus.ts'

const box = createSecretBox(Buffer.alloc(32, 7))

busContract('sealed', async () => {
  const group = new Set<MemoryBus>()
  return async () => new SealedBus(new MemoryBus(group), box)
})

test('nobody reads or writes on a sealed bus without its key', async () => {
  const group = new Set<MemoryBus>()
  const open = () => new MemoryBus(group)
  const [here, there] = [new SealedBus(open(), box), listening(new SealedBus(open(), box))]
  const other = listening(new SealedBus(open(), createSecretBox(Buffer.alloc(32, 8))))
  const bare = listening(open())
  await other.bus.publish(['from another database'])
  await bare.bus.publish(['forged', '', 'AAAA'])
  await here.publish(['a secret'])
  await there.until(1)
  assert.deepEqual(there.heard, ['a secret'])
  assert.deepEqual(other.heard, ['from another database'])
  const seen = bare.heard.join()
  assert.ok(!seen.includes('secret') && !Buffer.from(seen, 'base64').toString().includes('secret'))
})
