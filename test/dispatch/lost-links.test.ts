import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { anInput, answered, exactWebhook, numberIn, openBench } from '../support/dispatch-bench.ts'

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
