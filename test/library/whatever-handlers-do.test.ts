import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fatal, type Handler, type Posthorn, retryAfter } from '../../src/index.ts'
import { posthornFor } from './scene.ts'

const deeds = [
  'return',
  'resolve',
  'throw',
  'reject',
  'undefined',
  'fatal',
  'again',
  'late',
  'never',
  'late reject',
] as const
type Deed = (typeof deeds)[number]

const late = 60
const lateOnes: Promise<unknown>[] = []

/** Settles when nobody listens any more. */
function tooLate(): Promise<unknown> {
  const settling = new Promise((resolve) => setTimeout(resolve, late))
  lateOnes.push(settling)
  return settling
}

function act(deed: Deed): unknown {
  switch (deed) {
    case 'return':
      return 'anything'
    case 'resolve':
      return Promise.resolve()
    case 'throw':
      throw new Error('thrown')
    case 'reject':
      return Promise.reject(new Error('rejected'))
    case 'undefined':
      throw undefined
    case 'fatal':
      throw fatal('never')
    case 'again':
      throw retryAfter(1)
    case 'late':
      return tooLate()
    case 'never':
      return new Promise(() => {})
    case 'late reject':
      return tooLate().then(() => {
        throw new Error('late')
      })
  }
}

/** Every delivery has ended. */
function ended(posthorn: Posthorn, count: number): Promise<void> {
  return new Promise((resolve) => {
    let left = count
    const stop = posthorn.on('attempt.settled', ({ status }) => {
      if (status === 'pending') return
      left -= 1
      if (left > 0) return
      stop()
      resolve()
    })
  })
}

test('whatever handlers do, each run is one attempt in the log, and the process lives', async (t) => {
  const uncaught: unknown[] = []
  const note = (error: unknown) => uncaught.push(error)
  process.on('unhandledRejection', note)
  t.after(() => process.off('unhandledRejection', note))
  const posthorn = await posthornFor(t, { retryBaseDelay: '1ms', maxAttempts: 4 })
  const runs = new Map<string, number>()
  const handler: Handler = (event, { deliveryId, attempt }) => {
    runs.set(deliveryId, (runs.get(deliveryId) ?? 0) + 1)
    return act(event.data[attempt - 1])
  }
  posthorn.handle('free', handler, { timeout: 20, concurrency: 50 })
  posthorn.handle('in.order', handler, { timeout: 20, ordering: 'key', concurrency: 50 })
  const script = fc.array(fc.constantFrom(...deeds), { minLength: 4, maxLength: 4 })
  const event = fc.record({
    type: fc.constantFrom('free', 'in.order'),
    data: script,
    key: fc.constantFrom('a', 'b', 'c'),
  })
  let delivered = 0
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 1, maxLength: 30 }), async (events) => {
      const done = ended(posthorn, events.length)
      const sent = await posthorn.sendBatch(events)
      await done
      for (const [index, { id }] of sent.entries()) {
        const [delivery] = (await posthorn.deliveries.list({ event: id })).items
        const shown = await posthorn.deliveries.get(delivery?.id ?? '')
        const log = shown?.attemptLog ?? []
        assert.equal(log.length, runs.get(shown?.id ?? ''), 'attempts logged are runs started')
        assert.equal(shown?.attempts, log.length)
        assert.deepEqual(
          log.map(({ number }) => number),
          log.map((_, at) => at + 1),
        )
        const last = events[index]?.data[log.length - 1]
        if (shown?.status !== 'delivered') continue
        assert.ok(last === 'return' || last === 'resolve', String(last))
        delivered += 1
      }
    }),
    { numRuns: 8 },
  )
  assert.ok(delivered > 0, 'some came to a good end')
  await Promise.allSettled(lateOnes)
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(uncaught, [])
})
