import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { budgetCooldownMs, type Hold, heldAgain, startsAllowed } from '../../src/core/consumer-hold.ts'

const now = 1_000_000

describe('a hold of a consumer', () => {
  test('of something of our own is tried again at growing distances, half a minute at most', () => {
    let hold: Hold | null = null
    const waits: number[] = []
    for (let times = 1; times <= 8; times++) {
      hold = heldAgain(hold, 'infrastructure', now)
      waits.push((hold.until ?? 0) - now)
    }
    assert.deepEqual(waits, [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000])
    assert.equal(hold?.since, now)
  })

  test('of the budget is tried again once per cool-down', () => {
    const first = heldAgain(null, 'budget', now)
    const second = heldAgain(first, 'budget', now + budgetCooldownMs)
    assert.deepEqual([first.until, second.until], [now + budgetCooldownMs, now + 2 * budgetCooldownMs])
  })

  test('begins anew with another reason', () => {
    const before = { reason: 'infrastructure', since: now - 9, until: now, times: 5 } as const
    assert.deepEqual(heldAgain(before, 'budget', now), {
      reason: 'budget',
      since: now,
      until: now + budgetCooldownMs,
      times: 1,
    })
  })

  const cases: readonly (readonly [string, Hold | null, number])[] = [
    ['nothing holds it', null, 16],
    ['it is held', { reason: 'infrastructure', since: now, until: now + 1, times: 1 }, 0],
    ['the time for a probe has come', { reason: 'budget', since: now, until: now, times: 1 }, 1],
    ['a person has paused it', { reason: 'paused', since: now, until: null, times: 1 }, 0],
  ]
  for (const [what, hold, expected] of cases) {
    test(`while ${what}, ${expected} may be under way`, () => assert.equal(startsAllowed(hold, 16, now), expected))
  }
})
