import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { DeadLetterBudget, defaultBudget } from '../../src/core/dead-letter-budget.ts'

describe('the budget of dead letters', () => {
  test('allows half of 200 by default, also while fewer than 200 were seen', () => {
    const budget = new DeadLetterBudget(defaultBudget)
    for (let n = 0; n < 99; n++) budget.note(true)
    assert.equal(budget.isSpent, false)
    budget.note(true)
    assert.equal(budget.isSpent, true)
  })

  test('counts the latest records and no others', () => {
    fc.assert(
      fc.property(
        fc.array(fc.boolean(), { maxLength: 100 }),
        fc.integer({ min: 1, max: 20 }),
        fc.double({ min: 0.01, max: 1, noNaN: true }),
        (results, window, share) => {
          const budget = new DeadLetterBudget({ share, window })
          for (const isDead of results) budget.note(isDead)
          const dead = results.slice(-window).filter((isDead) => isDead).length
          assert.equal(budget.count, dead)
          assert.equal(budget.isSpent, dead >= Math.max(1, Math.floor(share * window)))
        },
      ),
    )
  })

  test('starts anew when it is cleared', () => {
    const budget = new DeadLetterBudget({ share: 0.5, window: 4 })
    for (const isDead of [true, false, true]) budget.note(isDead)
    budget.clear()
    assert.deepEqual([budget.count, budget.isSpent], [0, false])
    for (const isDead of [true, true]) budget.note(isDead)
    assert.equal(budget.isSpent, true)
  })
})
