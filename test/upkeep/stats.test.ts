import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { StoreStats } from '../../src/store/upkeep-store.ts'
import { Stats } from '../../src/upkeep/stats.ts'

/** A store whose counting takes as long as it is told, on a clock that only this moves. */
function scene() {
  let now = 0
  let counts = 0
  let takesMs = 0
  const stats = new Stats(
    {
      stats: async (): Promise<StoreStats> => {
        now += takesMs
        counts += 1
        return { backlog: [], deadLetters: counts, deadLettersAt: [], fileBytes: 0, walBytes: 0, freeBytes: 0 }
      },
    },
    () => now,
  )
  return {
    stats,
    pass: (ms: number) => {
      now += ms
    },
    countsIn: (ms: number) => {
      takesMs = ms
    },
  }
}

describe('what the store tells of itself', () => {
  test('is counted anew for who wants it fresh, while that is quick', async () => {
    const { stats, countsIn } = scene()
    countsIn(100)
    assert.equal((await stats.readFresh()).deadLetters, 1)
    assert.equal((await stats.readFresh()).deadLetters, 2)
    assert.equal((await stats.read()).deadLetters, 2)
  })

  test('leaves the reader twenty times as long as it took, at most ten seconds', async () => {
    const { stats, pass, countsIn } = scene()
    countsIn(101)
    assert.equal((await stats.readFresh()).deadLetters, 1)
    pass(1_918)
    assert.equal((await stats.readFresh()).deadLetters, 1)
    pass(1)
    countsIn(5_000)
    assert.equal((await stats.readFresh()).deadLetters, 2)
    pass(4_999)
    assert.equal((await stats.readFresh()).deadLetters, 2)
    pass(1)
    assert.equal((await stats.readFresh()).deadLetters, 3)
  })

  test('is counted once for all who ask while it is counted', async () => {
    const { stats, countsIn } = scene()
    countsIn(10)
    const answers = await Promise.all([stats.readFresh(), stats.readFresh(), stats.read()])
    assert.deepEqual(
      answers.map(({ deadLetters }) => deadLetters),
      [1, 1, 1],
    )
  })
})
