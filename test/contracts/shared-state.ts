import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { SharedState, SwapAnswer } from '../../src/shared-state/shared-state.ts'
import { eventually } from '../support/eventually.ts'

/** Opens what one process has of the state; all that one test opens share it. Closed when the test ends. */
export type OpenStates = (t: TestContext) => Promise<() => Promise<SharedState>>

const hourMs = 3_600_000
const swapped: SwapAnswer = { swapped: true }

async function put(state: SharedState, key: string, from: string | null, to: string | null): Promise<SwapAnswer> {
  const [answer] = await state.swap([{ key, from, to, ttlMs: hourMs }])
  assert.ok(answer !== undefined)
  return answer
}

function untilGone(state: SharedState, key: string): Promise<true> {
  return eventually(`${key} is gone`, async () => ((await state.read([key]))[0] === null ? true : null))
}

/** The promises of the port: every adapter passes this suite unchanged. */
export function sharedStateContract(name: string, open: OpenStates): void {
  describe(`${name}: shared state`, () => {
    test('has nothing under a key that nobody has set, and nothing is read of no key', async (t) => {
      const state = await (await open(t))()
      assert.deepEqual(await state.read(['a', 'b']), [null, null])
      assert.deepEqual(await state.read([]), [])
      assert.deepEqual(await state.swap([]), [])
    })

    test('gives every process what one has put, in the order of the keys', async (t) => {
      const client = await open(t)
      const [here, there] = [await client(), await client()]
      assert.deepEqual(await put(here, 'a', null, 'one'), swapped)
      assert.deepEqual(await put(here, 'c', null, '{"ö":"✓ \' \\""}'), swapped)
      assert.deepEqual(await there.read(['c', 'b', 'a']), ['{"ö":"✓ \' \\""}', null, 'one'])
    })

    test('puts a value in the place of the one that it was made from, and of no other', async (t) => {
      const state = await (await open(t))()
      assert.deepEqual(await put(state, 'a', 'zero', 'one'), { swapped: false, found: null })
      assert.deepEqual(await put(state, 'a', null, 'one'), swapped)
      assert.deepEqual(await put(state, 'a', null, 'two'), { swapped: false, found: 'one' })
      assert.deepEqual(await put(state, 'a', 'two', 'three'), { swapped: false, found: 'one' })
      assert.deepEqual(await put(state, 'a', 'one', 'two'), swapped)
      assert.deepEqual(await state.read(['a']), ['two'])
    })

    test('removes a value, so that the next one is made from none', async (t) => {
      const state = await (await open(t))()
      await put(state, 'a', null, 'one')
      assert.deepEqual(await put(state, 'a', 'two', null), { swapped: false, found: 'one' })
      assert.deepEqual(await put(state, 'a', 'one', null), swapped)
      assert.deepEqual(await state.read(['a']), [null])
      assert.deepEqual(await put(state, 'a', null, ''), swapped)
      assert.deepEqual(await state.read(['a']), [''])
    })

    test('answers several swaps in their order, each by itself', async (t) => {
      const state = await (await open(t))()
      await put(state, 'b', null, 'there')
      const answers = await state.swap(
        ['c', 'b', 'a'].map((key) => ({ key, from: null, to: `new ${key}`, ttlMs: hourMs })),
      )
      assert.deepEqual(answers, [swapped, { swapped: false, found: 'there' }, swapped])
      assert.deepEqual(await state.read(['a', 'b', 'c']), ['new a', 'there', 'new c'])
    })

    test('forgets a value after its time, and only then', async (t) => {
      const state = await (await open(t))()
      await put(state, 'long', null, 'kept')
      await state.swap([{ key: 'short', from: null, to: 'soon gone', ttlMs: 200 }])
      assert.deepEqual(await state.read(['short']), ['soon gone'])
      await untilGone(state, 'short')
      assert.deepEqual(await state.read(['long']), ['kept'])
      assert.deepEqual(await put(state, 'short', 'soon gone', 'again'), { swapped: false, found: null })
      assert.deepEqual(await put(state, 'short', null, 'again'), swapped)
    })

    test('a value that is put again lives for its new time', async (t) => {
      const state = await (await open(t))()
      await state.swap([{ key: 'a', from: null, to: 'first', ttlMs: 200 }])
      await put(state, 'a', 'first', 'second')
      await state.swap([{ key: 'witness', from: null, to: 'gone', ttlMs: 400 }])
      await untilGone(state, 'witness')
      assert.deepEqual(await state.read(['a']), ['second'])
    })

    test('lets one succeed of many that are made from the same value at the same moment', async (t) => {
      const client = await open(t)
      const first = await client()
      const states = [first, await client(), await client()]
      for (const from of [null, 'taken by 7']) {
        await Promise.all(states.map((state) => state.read(['a'])))
        const answers = await Promise.all(
          states.flatMap((state, at) => [
            put(state, 'a', from, `by ${at} ${from}`),
            put(state, 'a', from, 'by another'),
          ]),
        )
        assert.equal(answers.filter((answer) => answer.swapped).length, 1)
        const [winner = null] = await first.read(['a'])
        for (const answer of answers) if (!answer.swapped) assert.equal(answer.found, winner)
        await put(first, 'a', winner, 'taken by 7')
      }
    })

    test('loses no change of processes that try again until theirs is in it', async (t) => {
      const client = await open(t)
      const add = async (state: SharedState, times: number): Promise<void> => {
        let from: string | null = null
        for (let left = times; left > 0; ) {
          const answer = await put(state, 'sum', from, String(Number(from ?? 0) + 1))
          from = answer.swapped ? String(Number(from ?? 0) + 1) : answer.found
          if (answer.swapped) left -= 1
        }
      }
      const states = [await client(), await client(), await client()]
      await Promise.all(states.map((state) => add(state, 30)))
      assert.deepEqual(await states[0]?.read(['sum']), ['90'])
    })

    test('answers those that swap the same keys in different orders', async (t) => {
      const client = await open(t)
      const [here, there] = [await client(), await client()]
      const keys = Array.from({ length: 50 }, (_, at) => `k${at}`)
      const swaps = keys.map((key) => ({ key, from: null, to: 'mine', ttlMs: hourMs }))
      const rounds = Array.from({ length: 10 }, () => [here.swap(swaps), there.swap(swaps.toReversed())])
      const answers = (await Promise.all(rounds.flat())).flat()
      assert.equal(answers.filter((answer) => answer.swapped).length, keys.length)
    })

    test('can be closed twice', async (t) => {
      const state = await (await open(t))()
      await state.read(['a'])
      await state.close()
      await state.close()
    })
  })
}
