import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { Wakeups } from '../../src/dispatch/wakeups.ts'

type Named = { name: number }

describe('wakeups', () => {
  test('come in order of time, however many and in whatever order they were asked for', (t) => {
    const { wakeups, pass, woken } = setUp(t)
    const instants = Array.from({ length: 3_000 }, (_, i) => ((i * 7_919) % 3_000) + 1)
    for (const at of instants) wakeups.schedule({ name: at }, at)
    pass(3_000)
    assert.deepEqual(
      woken,
      instants.toSorted((a, b) => a - b),
    )
  })

  test('the earliest instant that was asked for wins, and wakes once', (t) => {
    const { wakeups, pass, woken } = setUp(t)
    const sleeper = { name: 1 }
    for (const at of [500, 200, 300, 100, 400]) wakeups.schedule(sleeper, at)
    pass(99)
    assert.deepEqual(woken, [])
    pass(1_000)
    assert.deepEqual(woken, [1])
  })

  test('a far instant that is put off again and again does not pile up', (t) => {
    const { wakeups, pass, woken } = setUp(t)
    const sleeper = { name: 1 }
    for (let i = 0; i < 50_000; i++) {
      wakeups.schedule(sleeper, 86_400_000)
      wakeups.schedule(sleeper, i + 1)
      pass(1)
    }
    assert.equal(woken.length, 50_000)
    assert.ok(wakeups.size < 3_000, `${wakeups.size} entries for one sleeper`)
  })

  test('after a stop nobody is woken', (t) => {
    const { wakeups, pass, woken } = setUp(t)
    wakeups.schedule({ name: 1 }, 10)
    wakeups.stop()
    wakeups.stop()
    wakeups.schedule({ name: 2 }, 10)
    pass(100)
    assert.deepEqual(woken, [])
  })
})

function setUp(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let now = 0
  const woken: number[] = []
  const wakeups = new Wakeups<Named>(
    () => now,
    (sleeper) => woken.push(sleeper.name),
  )
  const pass = (ms: number) => {
    now += ms
    t.mock.timers.tick(ms)
  }
  return { wakeups, pass, woken }
}
