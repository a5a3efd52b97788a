import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Lane, type Placed } from '../../src/hub/lane.ts'

type Step = 'null' | 'behind' | 'begin' | 'end' | 'fail' | 'recall' | 'forget'

test('whatever comes in whatever order: one at a time, none before what it is behind has ended, none lost', () => {
  const step = fc.oneof(
    { weight: 10, arbitrary: fc.constantFrom<Step>('null', 'behind', 'behind', 'begin', 'begin', 'end', 'fail') },
    { weight: 1, arbitrary: fc.constantFrom<Step>('recall', 'forget') },
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(step, fc.nat(3)), { minLength: 20, maxLength: 40 }), (steps) => {
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
    { numRuns: 3_000 },
  )
})

test('does not run what is behind one that failed, although another chain was before it and ended well', () => {
  const lane = new Lane<Placed>()
  lane.arrive({ delivery: 'b', behind: null })
  lane.begin()
  // On a new link, while b is still under way: the edge never heard that a has ended, so it begins with a.
  lane.forget()
  lane.arrive({ delivery: 'a', behind: null })
  lane.arrive({ delivery: 'c', behind: 'b' })
  assert.deepEqual(lane.settle(false), [])
  assert.equal(lane.begin()?.delivery, 'a')
  assert.deepEqual(lane.settle(true), [{ delivery: 'c', behind: 'b' }])
  assert.equal(lane.begin(), null)
})

test('after the link was lost nothing comes behind what ended on it', () => {
  const lane = new Lane<Placed>()
  lane.arrive({ delivery: 'a', behind: null })
  lane.begin()
  lane.settle(true)
  assert.deepEqual(lane.arrive({ delivery: 'b', behind: 'a' }), [])
  assert.deepEqual(lane.forget(), [{ delivery: 'b', behind: 'a' }])
  assert.deepEqual(lane.arrive({ delivery: 'b', behind: 'a' }), [{ delivery: 'b', behind: 'a' }])
})
