import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RetryPolicy } from '../../src/core/retry-policy.ts'
import type { Beat } from '../../src/store/cluster-store.ts'
import { anArrival } from '../support/builders.ts'
import { anInput, answered, type Bench, exactWebhook, numberIn, openBench } from '../support/dispatch-bench.ts'
import { withMembers } from '../support/watched-store.ts'

/** So long that nothing here waits it out. */
const hours: RetryPolicy = {
  ...{ ...exactWebhook, strategy: 'exponential' },
  ...{ multiplier: 2, baseDelayMs: 3_600_000, maxDelayMs: 7_200_000 },
}
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

describe('a lost link', () => {
  test('costs a try but no wait: when the hub is back it goes on at once', async (t) => {
    const bench = await openBench(t, { target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
    const endpoint = await bench.addRelay({
      retry: { ...exactWebhook, strategy: 'exponential', multiplier: 2, baseDelayMs: 60_000, maxDelayMs: 600_000 },
    })
    await bench.intake.accept(upTo(10).map((n) => anInput({ n })))
    await bench.quiet()
    bench.hub.lose(endpoint)
    await bench.quiet()
    const head = (await bench.deliveries(endpoint.id))[0]!.delivery
    assert.ok(head.status === 'pending' && head.attempts === 1)
    assert.match(head.lastError ?? '', /^LINK_LOST/)
    assert.ok((head.dueAt ?? 0) > bench.time.nowMs + 30_000)
    await bench.pass(400, 100)
    for (const run of bench.hub.open) run.answer(answered(200))
    bench.hub.come(endpoint)
    await bench.quiet()
    assert.deepEqual(await bench.tally(endpoint.id), { delivered: 10 })
    const ran = bench.hub.runs.filter((parcel) => parcel.endpoint.id === endpoint.id).map(numberIn)
    assert.deepEqual(ran, upTo(10), 'what the hub had done meanwhile is answered from memory')
  })

  test('after which nobody had answered costs no wait either, but only when the link is a new one', async (t) => {
    const noAck = { kind: 'unreachable', code: 'NO_ACK', message: 'the hub did not answer' } as const
    const bench = await openBench(t, { target: (_, runs) => (runs === 1 ? noAck : answered(200)) })
    const endpoint = await bench.addRelay()
    await bench.send({ n: 0 })
    await bench.quiet()
    assert.deepEqual([bench.hub.runs.length, await bench.tally()], [1, { pending: 1 }])
    bench.hub.lose(endpoint)
    bench.hub.come(endpoint)
    await bench.quiet()
    assert.deepEqual([bench.hub.runs.length, await bench.tally()], [2, { delivered: 1 }])
  })

  test('ends no wait that has another reason', async (t) => {
    const bench = await openBench(t, { target: (parcel) => answered(parcel.attempt === 1 ? 503 : 200) })
    const endpoint = await bench.addRelay({ ordering: 'none' })
    await bench.send({ n: 0 })
    await bench.quiet()
    bench.hub.lose(endpoint)
    bench.hub.come(endpoint)
    await bench.quiet()
    assert.equal(bench.hub.runs.length, 1)
    await bench.pass(1_000)
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })

  test('is made good even if the next link is there before the failure is on disk', async (t) => {
    const bench = await openBench(t, { target: (_, runs) => (runs <= 3 ? 'hold' : answered(200)) })
    const endpoint = await bench.addRelay({ ordering: 'none' })
    for (const n of upTo(3)) await bench.send({ n })
    await bench.quiet()
    const release = bench.watched.hold('commit')
    bench.hub.lose(endpoint)
    await bench.quiet()
    for (const run of [...bench.hub.open]) run.answer(answered(503))
    bench.hub.come(endpoint)
    await bench.quiet()
    release()
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 3 })
    const attempts = (await bench.deliveries()).map(({ delivery }) => delivery.attempts)
    assert.deepEqual(attempts, [2, 2, 2])
  })

  test('leaves nothing ahead, and a link that comes back at once gets it all again', async (t) => {
    const bench = await openBench(t, { target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
    const endpoint = await bench.addRelay()
    await bench.intake.accept(upTo(30).map((n) => anInput({ n })))
    await bench.quiet()
    assert.equal(bench.hub.aheadOf(endpoint), 29)
    bench.hub.lose(endpoint)
    assert.equal(bench.hub.aheadOf(endpoint), 0)
    bench.hub.come(endpoint)
    await bench.quiet()
    for (const run of bench.hub.open) run.answer(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 30 })
    assert.deepEqual(bench.hub.runs.map(numberIn), upTo(30))
  })

  test('a failure to end the waits is no more than a wait', async (t) => {
    const bench = await openBench(t, { target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
    const endpoint = await bench.addRelay()
    await bench.send({ n: 0 })
    await bench.quiet()
    bench.hub.lose(endpoint)
    await bench.quiet()
    for (const run of bench.hub.open) run.answer(answered(200))
    bench.watched.refuse('pullBack')
    bench.hub.come(endpoint)
    await bench.quiet()
    assert.ok(bench.logged.includes('waits.not_ended'))
    assert.deepEqual(await bench.tally(), { pending: 1 })
    await bench.pass(1_000)
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })
})

describe('a link that was lost to another member', () => {
  const dueIn = async (bench: Bench) => {
    const { delivery } = (await bench.deliveries())[0]!
    assert.ok(delivery.status === 'pending' && delivery.attempts === 1)
    return (delivery.dueAt ?? 0) - bench.time.nowMs
  }

  test('leaves no wait when its failure is on disk after the hub has reached the other, which is hinted', async (t) => {
    const bench = await openBench(t, { target: () => 'hold' })
    const endpoint = await bench.addRelay({ retry: hours })
    await bench.send()
    await bench.quiet()
    const calls: unknown[] = []
    bench.watched.onCall = (name, [, ids]) => calls.push(name === 'hint' ? ids : name)
    const release = bench.watched.hold('commit')
    bench.hub.lose(endpoint)
    await bench.quiet()
    bench.others.come(endpoint)
    await bench.quiet()
    release()
    await bench.quiet()
    // At the failure, which waits, and when the wait has been ended.
    assert.deepEqual(calls.slice(calls.indexOf('pullBack')), ['pullBack', 'pullBack', [endpoint.id], [endpoint.id]])
    assert.ok((await dueIn(bench)) <= 0)
    for (const run of bench.hub.open) run.answer(answered(200))
  })

  test('leaves no wait when the hub reaches the other after that', async (t) => {
    const bench = await openBench(t, { target: () => 'hold' })
    const endpoint = await bench.addRelay({ retry: hours })
    await bench.send()
    await bench.quiet()
    bench.hub.lose(endpoint)
    await bench.quiet()
    assert.ok((await dueIn(bench)) > 3_000_000)
    bench.others.come(endpoint)
    await bench.quiet()
    assert.ok((await dueIn(bench)) <= 0)
    const calls = bench.watched.calls('pullBack')
    bench.others.leave(endpoint)
    bench.others.come(endpoint)
    await bench.quiet()
    assert.equal(bench.watched.calls('pullBack'), calls, 'a wait is ended once')
    for (const run of bench.hub.open) run.answer(answered(200))
  })

  test('leaves no wait of what nobody had answered before it was lost', async (t) => {
    const noAck = { kind: 'unreachable', code: 'NO_ACK', message: 'the hub did not answer' } as const
    const bench = await openBench(t, { target: () => 'hold' })
    const endpoint = await bench.addRelay({ retry: hours, ordering: 'none' })
    await bench.send()
    await bench.quiet()
    const release = bench.watched.hold('commit')
    for (const run of bench.hub.open) run.answer(noAck)
    await bench.quiet()
    bench.hub.lose(endpoint)
    bench.others.come(endpoint)
    release()
    await bench.quiet()
    assert.ok((await dueIn(bench)) <= 0)
  })

  test('hands back what waits here, and hints at it', async (t) => {
    const bench = await openBench(t, { target: () => 'hold' })
    const endpoint = await bench.addRelay({ ordering: 'none', concurrency: 1 })
    for (const n of upTo(5)) await bench.send({ n })
    await bench.quiet()
    const before = bench.watched.calls('hint')
    bench.hub.lose(endpoint)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { pending: 5 })
    assert.equal(bench.watched.calls('hint') - before, 5)
    for (const run of bench.hub.open) run.answer(answered(200))
  })

  test('is no reason to hint at what is tried here', async (t) => {
    const bench = await openBench(t, { target: (_, runs) => answered(runs === 1 ? 503 : 200) })
    await bench.addRelay({ ordering: 'none' })
    await bench.send()
    await bench.quiet()
    await bench.pass(1_000)
    assert.deepEqual([await bench.tally(), bench.watched.calls('hint')], [{ delivered: 1 }, 0])
  })
})

describe('a hub that comes from another member', () => {
  test('gets at once what that one has left in the store', async (t) => {
    const bench = await openBench(t, { lease: { leaseMs: 10_000, beatEveryMs: 2_000 } })
    const endpoint = await bench.addRelay()
    bench.hub.lose(endpoint)
    await bench.store.append([anArrival(endpoint)])
    await bench.quiet()
    bench.hub.come(endpoint)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })

  test('waits for nothing that one lost which did not live to hear where the hub is', async (t) => {
    const lease = { leaseMs: 10_000, beatEveryMs: 2_000 }
    const bench = await openBench(t, { lease, target: (_, runs) => (runs === 1 ? 'hold' : answered(200)) })
    const endpoint = await bench.addRelay({ retry: hours })
    await bench.send()
    await bench.quiet()
    bench.hub.lose(endpoint)
    await bench.quiet()
    bench.watched.refuse('pullBack')
    bench.hub.come(endpoint)
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { pending: 1 })
    bench.watched.mend()
    const { onAnswer } = bench.watched
    bench.watched.onAnswer = (name, answer) => {
      const told = onAnswer(name, answer)
      return name === 'beat' ? withMembers(told as Beat, ['single', 'mbr_new']) : told
    }
    for (const run of bench.hub.open) run.answer(answered(200))
    await bench.pass(lease.beatEveryMs)
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })
})
