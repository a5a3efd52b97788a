import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Lane, type Placed } from '../../src/hub/lane.ts'

type Step = 'null' | 'behind' | 'begin' | 'end' | 'fail' | 'recall' | 'forget'

test('whatever comes in whatever order: one at a time, none before what it is behind has ended, none lost', () => {
  const step = fc.constantFrom<Step>('null', 'behind', 'begin', 'end', 'fail', 'recall', 'forget')
  fc.assert(
    fc.property(fc.array(fc.tuple(step, fc.nat(3)), { maxLength: 80 }), (steps) => {
      const lane = new Lane<Placed>()
      const ended = new Set<string>()
      const held = new Set<string>()
      let count = 0
      let running: Placed | null = null
      const giveBack = (items: readonly Placed[]) => {
        for (const item of items) assert.ok(held.delete(item.delivery), 'given back once')
      }
      for (const [kind, back] of steps) {
        if (kind === 'null' || kind === 'behind') {
          const delivery = `d${count++}`
          held.add(delivery)
          giveBack(lane.arrive({ delivery, behind: kind === 'null' ? null : `d${count - 2 - back}` }))
        } else if (kind === 'begin') {
          const next = lane.begin()
          if (running !== null) assert.equal(next, null)
          if (next?.behind != null) assert.ok(ended.has(next.behind), `${next.behind} has not ended`)
          running ??= next
        } else if (kind === 'recall' || kind === 'forget') {
          giveBack(lane[kind]())
        } else if (running !== null) {
          held.delete(running.delivery)
          if (kind === 'end') ended.add(running.delivery)
          running = null
          giveBack(lane.settle(kind === 'end'))
        }
        assert.equal(lane.isIdle, held.size === 0)
      }
    }),
    { numRuns: 500 },
  )
})
