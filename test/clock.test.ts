import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openClock } from '../src/clock.ts'

const hourMs = 3_600_000

describe('the steady clock of a process', () => {
  for (const [machine, offMs] of [
    ['ahead', -hourMs],
    ['behind', hourMs],
  ] as const) {
    it(`becomes the store's where the machine's clock is ${machine}, and goes on from there`, () => {
      const clock = openClock()
      const storeNow = Date.now() + offMs
      clock.follow(storeNow)
      const passed = clock.steady() - storeNow
      assert.ok(passed >= 0 && passed < hourMs / 2, `${passed} ms passed`)
      clock.follow(storeNow - hourMs)
      assert.ok(clock.steady() >= storeNow, 'never back')
      clock.follow(storeNow + hourMs)
      assert.ok(clock.steady() >= storeNow + hourMs, 'forward')
    })
  }
})
