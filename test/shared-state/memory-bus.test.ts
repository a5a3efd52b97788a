import { MemoryBus } from '../../src/shared-state/memory-bus.ts'
import { busContract } from '../contracts/bus.ts'

busContract('memory', async () => {
  const group = new Set<MemoryBus>()
  return async () => new MemoryBus(group)
})
