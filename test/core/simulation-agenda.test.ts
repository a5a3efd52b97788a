import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Agenda } from '../../src/core/simulation-agenda.ts'

test('things are taken in the order of time, and in the order added at the same instant', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20)), fc.array(fc.nat(20)), (first, then) => {
      const agenda = new Agenda<Readonly<{ at: number; order: number }>>()
      const expected = [...first, ...then].map((at, order) => ({ at, order }))
      for (const item of expected) agenda.add(item.at, item)
      expected.sort((a, b) => a.at - b.at || a.order - b.order)
      for (const item of expected) {
        assert.equal(agenda.firstAt(), item.at)
        assert.deepEqual(agenda.take(), item)
      }
      assert.equal(agenda.firstAt(), null)
      assert.equal(agenda.take(), null)
    }),
  )
})

test('what is added while things are taken finds its place', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(50), fc.boolean())), (steps) => {
      const agenda = new Agenda<number>()
      let waiting: number[] = []
      for (const [at, isTaken] of steps) {
        agenda.add(at, at)
        waiting = [...waiting, at].sort((a, b) => a - b)
        if (isTaken) assert.equal(agenda.take(), waiting.shift())
      }
    }),
  )
})
