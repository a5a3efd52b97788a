import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openClock } from '../src/clock.ts'

const hourMs = 3_600_000
const [alone, shared] = [{ isShared: false }, { isShared: true }]

/** By how much `clock` is ahead of the machine's, in whole hours. */
const hoursAhead = (clock: () => number) => Math.round((clock() - Date.now()) / hourMs)

describe('the clocks of a process', () => {
  for (const [machine, offHours] of [
    ['ahead', -1],
    ['behind', 1],
  ] as const) {
    it(`follow the store where the machine's clock is ${machine}; the steady one never goes back`, () => {
      const clock = openClock()
      const storeNow = Date.now() + offHours * hourMs
      clock.follow(storeNow, shared)
      for (const each of [clock.wall, clock.steady, clock.monotonic]) {
        const passed = each() - storeNow
        assert.ok(passed >= 0 && passed < hourMs / 2, `${passed} ms passed`)
      }
      clock.follow(storeNow - hourMs, shared)
      assert.ok(clock.steady() >= storeNow, 'never back')
      clock.follow(storeNow + hourMs, shared)
      assert.ok(clock.steady() >= storeNow + hourMs, 'forward')
    })
  }

  it('show when the time of a shared store was set: the monotonic one is not', () => {
    const clock = openClock()
    const now = Date.now()
    clock.follow(now, shared)
    const hours = () => [clock.wall, clock.steady, clock.monotonic].map(hoursAhead)
    clock.follow(now + 9 * hourMs, shared)
    assert.deepEqual(hours(), [9, 9, 0])
    clock.follow(now + 9 * hourMs - 1_000, shared)
    assert.ok(clock.wall() >= now + 9 * hourMs, 'an answer that comes late sets nothing back')
    clock.follow(now, shared)
    assert.deepEqual(hours(), [0, 9, 0])
  })

  it('leave the wall clock to the machine where the store is not shared', () => {
    const clock = openClock()
    clock.follow(Date.now() - 5 * hourMs, alone)
    assert.deepEqual([clock.wall, clock.steady, clock.monotonic].map(hoursAhead), [0, -5, -5])
  })
})
