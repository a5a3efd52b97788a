import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as aTurn } from 'node:timers/promises'
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
        return { backlog: [], deadLetters: counts, deadLettersAt: [] }
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

  test('costs whoever asks for what is known a twentieth of the time at most, and no wait when it is slow', async () => {
    const { stats, pass, countsIn } = scene()
    countsIn(5_000)
    // Nothing is known before.
    assert.equal((await stats.readKnown())?.stats.deadLetters, 1)
    for (let asked = 0; asked < 100; asked += 1) assert.equal((await stats.readKnown())?.stats.deadLetters, 1)
    pass(20 * 5_000 - 5_001)
    assert.equal((await stats.readKnown())?.stats.deadLetters, 1)
    pass(1)
    // The old answer at once; counted again on the side.
    const old = await stats.readKnown()
    assert.deepEqual([old?.stats.deadLetters, old?.countedAt], [1, 0])
    await aTurn()
    assert.equal((await stats.readKnown())?.stats.deadLetters, 2)
  })

  test('is fresh for whoever asks for what is known, while counting is quick', async () => {
    const { stats, pass, countsIn } = scene()
    countsIn(10)
    assert.equal((await stats.readKnown())?.stats.deadLetters, 1)
    pass(189)
    assert.equal((await stats.readKnown())?.stats.deadLetters, 1)
    pass(1)
    const known = await stats.readKnown()
    assert.deepEqual([known?.stats.deadLetters, known?.countedAt], [2, 200])
  })

  test('is not known when the store cannot be read, and that is no error', async () => {
    const stats = new Stats({ stats: () => Promise.reject(new Error('no disk')) }, () => 0)
    assert.equal(await stats.readKnown(), null)
  })

  test('is asked for again at once after the store could not be read', async () => {
    let asked = 0
    const stats = new Stats({ stats: () => Promise.reject(new Error(`no disk ${++asked}`)) }, () => 0)
    await assert.rejects(stats.read(), /no disk 1/)
    await assert.rejects(stats.read(), /no disk 2/)
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
