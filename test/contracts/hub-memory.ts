import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Clock } from '../../src/core/clock.ts'
import type { HubMemory, KeptEnd } from '../../src/store/hub-memory.ts'

export type MemoryLimits = Readonly<{ clock?: Clock; endsMax?: number; ageMsMax?: number }>
/** Opens the same memory again after it was closed. It is cleared away when the test ends. */
export type OpenMemory = (t: TestContext) => Promise<(limits?: MemoryLimits) => HubMemory>

const answered = { kind: 'answered', statusCode: 200, headers: {}, body: 'thanks' } as const

export function anEnd(given: Partial<KeptEnd> = {}): KeptEnd {
  return { delivery: 'dlv_1', bornAt: 1, report: answered, tookMs: 12, ...given }
}

/** The promises of the hub's memory: every adapter passes this suite unchanged. */
export function hubMemoryContract(name: string, open: OpenMemory): void {
  describe(`${name} of a hub`, () => {
    test('finds what was kept, and nothing else', async (t) => {
      const memory = (await open(t))()
      memory.keep(anEnd())
      assert.deepEqual(memory.find('dlv_1', 1), anEnd())
      assert.equal(memory.find('dlv_2', 1), null)
    })

    test('knows the lives of a delivery apart', async (t) => {
      const memory = (await open(t))()
      memory.keep(anEnd())
      assert.equal(memory.find('dlv_1', 2), null)
      const again = anEnd({ bornAt: 2, report: { ...answered, statusCode: 404 } })
      memory.keep(again)
      assert.deepEqual([memory.find('dlv_1', 1), memory.find('dlv_1', 2)], [anEnd(), again])
    })

    test('outlives who kept it, every kind of end', async (t) => {
      const reopen = await open(t)
      const blocked = anEnd({ delivery: 'dlv_2', report: { kind: 'blocked', message: 'it is closed' } })
      const first = reopen()
      first.keep(anEnd())
      first.keep(blocked)
      first.close()
      const next = reopen()
      assert.deepEqual([next.find('dlv_1', 1), next.find('dlv_2', 1)], [anEnd(), blocked])
    })

    test('takes the later of two ends of one life', async (t) => {
      const memory = (await open(t))()
      memory.keep(anEnd())
      memory.keep(anEnd({ tookMs: 99 }))
      assert.equal(memory.find('dlv_1', 1)?.tookMs, 99)
    })

    test('keeps the beginning of a long answer', async (t) => {
      const memory = (await open(t))()
      const body = '🐎'.repeat(50_000)
      memory.keep(anEnd({ report: { ...answered, headers: { 'x-large': 'y'.repeat(10_000) }, body } }))
      const kept = memory.find('dlv_1', 1)?.report
      assert.ok(kept?.kind === 'answered')
      assert.ok(body.startsWith(kept.body) && kept.body.length >= 256 && kept.body.length <= 4_096)
      assert.deepEqual(kept.headers, {})
    })

    test('can say whether it could keep, and keeps nothing by it', async (t) => {
      const memory = (await open(t))()
      memory.probe()
      memory.keep(anEnd())
      memory.probe()
      assert.deepEqual(memory.find('dlv_1', 1), anEnd())
    })

    test('has a number that it does not exceed for long, and forgets the oldest first', async (t) => {
      const memory = (await open(t))({ endsMax: 100 })
      for (let n = 0; n < 1_000; n++) memory.keep(anEnd({ delivery: `dlv_${n}` }))
      const found = Array.from({ length: 1_000 }, (_, n) => memory.find(`dlv_${n}`, 1) !== null)
      const kept = found.filter((isThere) => isThere).length
      assert.ok(kept >= 100 && kept <= 300, `${kept}`)
      assert.ok(found.slice(-100).every((isThere) => isThere))
      assert.ok(found.slice(0, 1_000 - kept).every((isThere) => !isThere))
    })

    test('forgets what is too old, and nothing while the clock cannot be believed', async (t) => {
      const reopen = await open(t)
      let now = Date.UTC(2026, 0, 1)
      let setBack = 0
      const clock: Clock = { wall: () => now + setBack, steady: () => now, monotonic: () => now }
      const memory = reopen({ clock, ageMsMax: 1_000 })
      const fill = (from: string): void => {
        for (let n = 0; n < 200; n++) memory.keep(anEnd({ delivery: `${from}_${n}` }))
      }
      memory.keep(anEnd())
      setBack = 400 * 86_400_000
      fill('jumped')
      assert.notEqual(memory.find('dlv_1', 1), null)
      setBack = 0
      now += 2_000
      fill('later')
      assert.equal(memory.find('dlv_1', 1), null)
      assert.notEqual(memory.find('later_199', 1), null)
    })

    test('forgets by a clock that was set once it has gone on for a while, and nothing younger', async (t) => {
      const reopen = await open(t)
      let now = Date.UTC(2026, 0, 1)
      let ahead = 0
      const clock: Clock = { wall: () => now + ahead, steady: () => now, monotonic: () => now }
      const memory = reopen({ clock, ageMsMax: 3_600_000 })
      const fill = (from: string): void => {
        for (let n = 0; n < 70; n++) memory.keep(anEnd({ delivery: `${from}_${n}` }))
      }
      memory.keep(anEnd())
      ahead = 400 * 86_400_000
      fill('jumped')
      now += 11 * 60_000
      fill('believed')
      assert.notEqual(memory.find('dlv_1', 1), null)
      now += 3_600_000
      fill('later')
      assert.equal(memory.find('dlv_1', 1), null)
      assert.equal(memory.find('jumped_0', 1), null)
      assert.notEqual(memory.find('later_0', 1), null)
    })

    test('can be closed twice', async (t) => {
      const memory = (await open(t))()
      memory.close()
      memory.close()
    })
  })
}
