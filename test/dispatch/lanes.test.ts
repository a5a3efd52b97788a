import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isSettled } from '../../src/core/delivery.ts'
import type { Ordering } from '../../src/core/endpoint.ts'
import type { Report } from '../../src/core/outcome.ts'
import type { Parcel } from '../../src/transports/transport.ts'
import { anInput, answered, type Bench, numberIn, openBench, unreachable } from '../support/dispatch-bench.ts'

describe('lanes', () => {
  for (const ordering of ['key', 'endpoint'] as const) {
    test(`${ordering}: no event is tried before the end of the one before it is on disk, whatever happens`, async (t) => {
      const bench = await openBench(t, { attemptsMax: 20 })
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
          await walk(bench, ordering, steps)
        }),
        { numRuns: 50 },
      )
    })
  }

  test('what is not ordered is tried at once, whatever fails before it', async (t) => {
    const bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ ordering: 'key' })
    for (let n = 0; n < 8; n++) await bench.send({ n })
    await bench.quiet()
    assert.equal(bench.wire.open.size, 8, 'events without a key have no order')
  })

  test('other keys go on while one waits for its retry', async (t) => {
    const bench = await openBench(t, {
      script: (parcel) => answered(parcel.event.key === 'a' && parcel.attempt === 1 ? 503 : 200),
    })
    const endpoint = await bench.add({ ordering: 'key' })
    for (let n = 0; n < 20; n++) await bench.send({ key: n % 2 === 0 ? 'a' : 'b', n })
    await bench.quiet()
    assert.equal(bench.wire.tries.filter((one) => one.parcel.event.key === 'b').length, 10)
    assert.equal(bench.wire.tries.filter((one) => one.parcel.event.key === 'a').length, 1)
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 10, pending: 10 })
    // Each of the ten needs one retry after 1 s, one after another.
    await bench.pass(10_000, 1_000)
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 20 })
  })

  test('a lane whose head fails for good goes on with the next', async (t) => {
    const bench = await openBench(t, { script: (parcel) => answered(numberIn(parcel) === 0 ? 400 : 200) })
    const endpoint = await bench.add({ ordering: 'endpoint' })
    await bench.intake.accept(Array.from({ length: 10 }, (_, n) => anInput({ n })))
    await bench.quiet()
    assert.deepEqual(await bench.tally(endpoint.id), { failed: 1, delivered: 9 })
  })

  test('events accepted by concurrent calls arrive in the order of the calls', async (t) => {
    const bench = await openBench(t)
    await bench.add({ ordering: 'endpoint', concurrency: 10 })
    await Promise.all(Array.from({ length: 200 }, (_, n) => bench.send({ n })))
    await bench.quiet()
    assert.deepEqual(
      bench.wire.tries.map((one) => numberIn(one.parcel)),
      Array.from({ length: 200 }, (_, n) => n),
    )
  })

  test('order is kept across a stop in the middle and a new dispatcher on the same file', async (t) => {
    let bench = await openBench(t, { script: () => 'hold' })
    await bench.add({ ordering: 'key' })
    for (let n = 0; n < 30; n++) await bench.send({ key: `k${n % 3}`, n })
    await bench.quiet()
    const arrived: Parcel[] = []
    for (let turn = 0; turn < 6; turn++) {
      for (const one of [...bench.wire.open]) {
        if (numberIn(one.parcel) % 2 === turn % 2) continue
        arrived.push(one.parcel)
        one.answer(answered(200))
      }
      await bench.quiet()
      bench = await bench.restart({ script: () => 'hold' })
      await bench.quiet()
      assert.ok(bench.wire.open.size <= 3)
    }
    bench.wire.script = (parcel) => {
      arrived.push(parcel)
      return answered(200)
    }
    for (const one of [...bench.wire.open]) {
      arrived.push(one.parcel)
      one.answer(answered(200))
    }
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 30 })
    for (const key of ['k0', 'k1', 'k2']) {
      const numbers = arrived.filter((parcel) => parcel.event.key === key).map(numberIn)
      assert.deepEqual(
        numbers,
        numbers.toSorted((a, b) => a - b),
      )
      assert.equal(numbers.length, 10)
    }
  })
})

type Step =
  | Readonly<{ kind: 'send'; key: number; count: number }>
  | Readonly<{ kind: 'answer'; which: number; how: number }>

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('send' as const), key: fc.nat(3), count: fc.integer({ min: 1, max: 4 }) }),
  fc.record({ kind: fc.constant('answer' as const), which: fc.nat(20), how: fc.nat(5) }),
)

const reports: readonly Report[] = [
  answered(200),
  answered(200),
  answered(503),
  answered(400),
  unreachable('ECONNREFUSED'),
  unreachable('EMFILE'),
]

/** Sends and answers in a random order; the wire checks the lane in the store before it lets a try in. */
async function walk(bench: Bench, ordering: Ordering, steps: readonly Step[]): Promise<void> {
  const breaker = { threshold: 4, cooldownMs: 3_000, whenOpen: 'park' as const }
  const endpoint = await bench.add({ ordering, concurrency: 4, breaker, types: [`t${steps.length}.*`] })
  const type = `t${steps.length}.x`
  const checks: Promise<void>[] = []
  const open = new Set<string>()
  bench.wire.script = (parcel) => {
    checks.push(checkLane(bench, parcel, open))
    return 'hold'
  }
  let n = 0
  for (const one of steps) {
    if (one.kind === 'send') {
      const inputs = Array.from({ length: one.count }, () => anInput({ type, key: `k${one.key}`, n: n++ }))
      // Not awaited at once: some of it is still being written when the next step comes.
      checks.push(bench.intake.accept(inputs).then(() => {}))
    } else {
      const waiting = [...bench.wire.open]
      const chosen = waiting[one.which % Math.max(1, waiting.length)]
      if (chosen !== undefined) answerTo(chosen.parcel, open, () => chosen.answer(reports[one.how] ?? answered(200)))
      await bench.pass(500)
    }
  }
  bench.wire.script = (parcel) => {
    const check = checkLane(bench, parcel, open)
    checks.push(check)
    return check.then(() => {
      open.delete(laneName(parcel))
      return answered(200)
    })
  }
  for (const one of [...bench.wire.open]) answerTo(one.parcel, open, () => one.answer(answered(200)))
  await bench.pass(60_000, 1_000)
  await Promise.all(checks)
  const left = (await bench.deliveries(endpoint.id)).filter(({ delivery }) => !isSettled(delivery.status))
  assert.deepEqual(left, [])
  assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
  await bench.catalogue.remove(endpoint.id)
}

function answerTo(parcel: Parcel, open: Set<string>, answer: () => void): void {
  open.delete(laneName(parcel))
  answer()
}

function laneName(parcel: Parcel): string {
  return parcel.endpoint.ordering === 'endpoint' ? parcel.endpoint.id : `${parcel.endpoint.id} ${parcel.event.key}`
}

/** Nothing else of the lane is in flight, and all that was accepted before has ended, by what the disk says. */
async function checkLane(bench: Bench, parcel: Parcel, open: Set<string>): Promise<void> {
  const lane = laneName(parcel)
  assert.ok(!open.has(lane), `two tries in flight in ${lane}`)
  open.add(lane)
  for (const { delivery, key } of await bench.deliveries(parcel.endpoint.id)) {
    const isBefore = delivery.id < parcel.deliveryId
    const isSameLane = parcel.endpoint.ordering === 'endpoint' || key === parcel.event.key
    if (isBefore && isSameLane) assert.ok(isSettled(delivery.status), `${delivery.status} before ${lane}`)
  }
}
