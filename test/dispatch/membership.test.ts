import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Delivery } from '../../src/core/delivery.ts'
import type { Beat, MemberNews } from '../../src/store/cluster-store.ts'
import { anArrival } from '../support/builders.ts'
import { answered, type Bench, numberIn, openBench } from '../support/dispatch-bench.ts'
import type { Script } from '../support/scripted-wire.ts'
import { withMembers } from '../support/watched-store.ts'

const lease = { leaseMs: 10_000, beatEveryMs: 2_000 }

describe('a process that shares its store', () => {
  test('goes on for as long as its beats are answered', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add({ timeoutMs: 120_000 })
    await bench.send()
    await bench.pass(60_000, 1_000)
    assert.equal(bench.wire.tries.length, 1)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })

  test('ends every attempt and starts none when its lease has lapsed, and spends no budget', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add({ concurrency: 2 })
    for (let n = 0; n < 5; n++) await bench.send({ n })
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 2)
    bench.watched.refuse('beat')
    await bench.pass(lease.leaseMs - 1_000, 1_000)
    assert.deepEqual(await bench.tally(), { processing: 5 })
    await bench.pass(3_000, 1_000)
    assert.deepEqual(await bench.tally(), { pending: 5 })
    assert.equal(bench.wire.tries.length, 2)
    assert.ok((await bench.deliveries()).every(({ delivery }) => delivery.attempts === 0))
    await bench.send({ n: 5 })
    await bench.pass(30_000, 1_000)
    assert.equal(bench.wire.tries.length, 2)
  })

  test('finds what another member has accepted although no hint has come', async (t) => {
    const bench = await openBench(t, { lease })
    const endpoint = await bench.add()
    await bench.store.append([anArrival(endpoint, { delivery: { dueAt: bench.time.nowMs } })])
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(5_000, 1_000)
    assert.deepEqual(await bench.tally(), { delivered: 1 })
  })

  test('hints at every event that it cannot take itself: another member may', async (t) => {
    const bench = await openBench(t, { lease })
    const endpoint = await bench.addHandler()
    bench.code.leave(endpoint)
    const before = bench.watched.calls('hint')
    for (let n = 0; n < 3; n++) await bench.send({ n })
    assert.equal(bench.watched.calls('hint') - before, 3)
  })

  test('a handler that runs at another member is not missing', async (t) => {
    const bench = await openBench(t, { lease })
    const endpoint = await bench.addHandler()
    bench.code.leave(endpoint)
    assert.equal(bench.dispatcher.isServed(endpoint.id), false)
    bench.watched.onAnswer = (name, answer) =>
      name === 'beat' ? { ...(answer as Beat), handlersElsewhere: [endpoint.id] } : answer
    await bench.pass(lease.beatEveryMs, 1_000)
    assert.equal(bench.dispatcher.isServed(endpoint.id), true)
    assert.deepEqual(bench.dispatcher.handlers, [])
  })

  test('without a share, a person’s test of an endpoint is paced as ever', async (t) => {
    const bench = await openBench(t, { lease })
    const { id } = await bench.add({ concurrency: 1, rateLimit: { perSecond: 1 } })
    bench.watched.onAnswer = (name, answer) =>
      name === 'beat'
        ? withMembers(answer as Beat, ['single', ...Array.from({ length: 9 }, (_, n) => `mbr_${n}`)])
        : answer
    await bench.pass(3 * lease.beatEveryMs, 1_000)
    assert.equal(bench.dispatcher.tryOutWaitMs(id), null)
    assert.equal(bench.dispatcher.tryOutWaitMs(id), 1_000)
  })

  test('takes its share of the concurrency where others serve the endpoint too, and all of it again when they are gone', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    let members: readonly string[] = ['single', 'mbr_a', 'mbr_b']
    bench.watched.onAnswer = (name, answer) => {
      if (name === 'join') return { ...(answer as object), lease }
      return name === 'beat' ? withMembers(answer as Beat, members) : answer
    }
    await bench.pass(3 * lease.beatEveryMs, 1_000)
    await bench.add({ concurrency: 6 })
    for (let n = 0; n < 10; n++) await bench.send({ n })
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 2)
    members = ['single']
    await bench.pass(lease.beatEveryMs, 1_000)
    assert.equal(bench.wire.tries.length, 6)
    bench.wire.answerAll(answered(200))
  })

  test('that has just joined leaves the others their shares for two beats, however often hints make it beat', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    bench.watched.onAnswer = (name, answer) =>
      name === 'beat' ? withMembers(answer as Beat, ['single', 'mbr_a']) : answer
    await bench.pass(lease.beatEveryMs / 2)
    await bench.add({ concurrency: 2 })
    for (let n = 0; n < 5; n++) {
      bench.watched.hear({ registry: true })
      await bench.quiet()
      await bench.send({ n })
    }
    assert.equal(bench.watched.calls('beat'), 6)
    await bench.pass(1.5 * lease.beatEveryMs - 1, 500)
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(1)
    assert.equal(bench.wire.tries.length, 1)
    bench.wire.answerAll(answered(200))
  })

  test('gives no share to members that do not work', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    const members = ['single', 'mbr_a', 'mbr_b']
    let working = members
    bench.watched.onAnswer = (name, answer) =>
      name === 'beat' ? withMembers(answer as Beat, members, working) : answer
    await bench.pass(3 * lease.beatEveryMs, 1_000)
    await bench.add({ concurrency: 6 })
    for (let n = 0; n < 10; n++) await bench.send({ n })
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 2)
    working = ['single', 'mbr_b']
    bench.watched.hear({ members: true })
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 3)
    bench.wire.answerAll(answered(200))
  })

  test('tells the others at once when it stands aside, and waits two beats for its share when it works again', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    const told: unknown[] = []
    bench.watched.onCall = (name, [news]) => name === 'beat' && told.push((news as MemberNews).isWorking)
    bench.watched.onAnswer = (name, answer) =>
      name === 'beat' ? withMembers(answer as Beat, ['single', 'mbr_a'], told.at(-1) ? undefined : ['mbr_a']) : answer
    bench.dispatcher.standsAside = true
    await bench.quiet()
    assert.deepEqual(told, [false])
    bench.dispatcher.standsAside = false
    await bench.quiet()
    assert.deepEqual(told, [false, true])
    await bench.add({ concurrency: 2 })
    for (let n = 0; n < 5; n++) await bench.send({ n })
    await bench.pass(2 * lease.beatEveryMs - 1, 500)
    assert.equal(bench.wire.tries.length, 0)
    await bench.pass(1)
    assert.equal(bench.wire.tries.length, 1)
    bench.wire.answerAll(answered(200))
  })

  test('tells the others as soon as it is stopped, while its attempts finish', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add()
    await bench.send()
    await bench.quiet()
    const told: unknown[] = []
    bench.watched.onCall = (name, [news]) => told.push(name === 'beat' ? (news as MemberNews).isWorking : name)
    const stopping = bench.dispatcher.stop(20_000)
    await bench.quiet()
    assert.deepEqual(told, [false])
    bench.wire.answerAll(answered(200))
    await stopping
    assert.deepEqual(told.at(-1), 'leave')
  })

  test('is asked whether it is a member without any consequence', async (t) => {
    const bench = await openBench(t, { lease })
    const { membership } = bench.dispatcher
    bench.time.nowMs += lease.leaseMs
    assert.equal(membership.isMember, false)
    assert.equal(membership.isLeader, false)
    assert.ok(!bench.logged.includes('member.lapsed'))
    assert.equal(membership.checkLease(), false)
    assert.ok(bench.logged.includes('member.lapsed'))
  })

  test('that was stopped for longer than its lease claims nothing before a beat', async (t) => {
    const bench = await openBench(t, { lease })
    const { id } = await bench.add()
    const claims = bench.watched.calls('claim')
    bench.time.nowMs += lease.leaseMs
    bench.dispatcher.goOnAt([id])
    await bench.quiet()
    assert.equal(bench.watched.calls('claim'), claims)
    await bench.pass(lease.beatEveryMs)
    assert.ok(bench.watched.calls('claim') > claims)
  })

  test('goes on with everything when a beat is answered again', async (t) => {
    const bench = await lapsed(t)
    bench.watched.mend()
    bench.wire.script = () => answered(200)
    await bench.pass(lease.beatEveryMs, 1_000)
    assert.deepEqual(await bench.tally(), { delivered: 3 })
  })

  test('drops what it holds when another has fenced it, even if its lease has not lapsed here, and joins again', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add({ concurrency: 1 })
    for (let n = 0; n < 3; n++) await bench.send({ n })
    await bench.quiet()
    const joined = bench.watched.calls('join')
    const { onAnswer } = bench.watched
    bench.watched.onAnswer = (name, answer) => {
      if (name !== 'beat') return onAnswer(name, answer)
      bench.watched.onAnswer = onAnswer
      return { ...(answer as Beat), isLost: true }
    }
    bench.wire.script = () => answered(200)
    await bench.pass(lease.beatEveryMs)
    assert.equal(bench.watched.calls('join'), joined + 1)
    assert.ok(bench.logged.includes('member.fenced'))
    assert.equal(bench.wire.tries[0]?.signal.aborted, true)
    assert.deepEqual(await bench.tally(), { delivered: 3 })
  })

  test('that was stopped for longer than its lease starts nothing, although no timer has said so yet', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add({ concurrency: 1 })
    for (let n = 0; n < 3; n++) await bench.send({ n })
    await bench.quiet()
    // What has come while it stood still is handled before the timers.
    bench.time.nowMs += lease.leaseMs
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 1)
    assert.deepEqual(await bench.tally(), { delivered: 1, pending: 2 })
    assert.ok(bench.logged.includes('member.lapsed'))
  })

  test('that was suspended with its machine starts nothing before a beat, once the machine knows the time', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add({ concurrency: 1 })
    for (let n = 0; n < 3; n++) await bench.send({ n })
    await bench.quiet()
    // No timer and no steady clock has noticed anything.
    bench.time.skewMs = lease.leaseMs
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 1)
    assert.ok(bench.logged.includes('member.lapsed'))
    bench.wire.script = () => answered(200)
    await bench.pass(lease.beatEveryMs)
    assert.deepEqual(await bench.tally(), { delivered: 3 })
  })

  test('takes no heart from an answer that is older than its lease', async (t) => {
    const bench = await openBench(t, { lease, script: () => 'hold' })
    await bench.add({ concurrency: 1 })
    await bench.send()
    await bench.quiet()
    const { onAnswer } = bench.watched
    const late = Promise.withResolvers<void>()
    let beats = 0
    bench.watched.onAnswer = (name, answer) => {
      if (name !== 'beat') return onAnswer(name, answer)
      beats += 1
      if (beats > 1) throw new Error('played by the test')
      return late.promise.then(() => answer)
    }
    await bench.pass(lease.leaseMs + lease.beatEveryMs, 1_000)
    assert.deepEqual(await bench.tally(), { pending: 1 })
    late.resolve()
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 1)
    bench.watched.onAnswer = onAnswer
    await bench.pass(lease.beatEveryMs, 1_000)
    assert.equal(bench.wire.tries.length, 2)
    bench.wire.answerAll(answered(200))
  })

  test('hands back what a claim has taken whose answer got lost, and nothing that it knows', async (t) => {
    const script: Script = (parcel) => (numberIn(parcel) === 0 ? 'hold' : answered(200))
    const bench = await openBench(t, { lease, script })
    await bench.add({ concurrency: 2, timeoutMs: 240_000 })
    await bench.send({ n: 0 })
    await bench.quiet()
    bench.dispatcher.paused = true
    await bench.send({ n: 1 })
    const { onAnswer } = bench.watched
    let claims = 0
    bench.watched.onAnswer = async (name, answer) => {
      if (name === 'listHeld') return await heldBy(bench)
      if (name === 'claim' && claims++ === 0) throw new Error('played by the test: the connection is gone')
      return onAnswer(name, answer)
    }
    bench.dispatcher.paused = false
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { processing: 2 })
    await bench.pass(100_000, 1_000)
    assert.ok(bench.logged.includes('claims.lost'))
    // The other has been on the wire all the time.
    assert.deepEqual(await bench.tally(), { processing: 1, delivered: 1 })
    assert.equal(bench.wire.tries.length, 2)
    bench.wire.answerAll(answered(200))
    await bench.quiet()
    assert.deepEqual(await bench.tally(), { delivered: 2 })
  })

  test('keeps events that come in while it is no member for later', async (t) => {
    const bench = await lapsed(t)
    const before = bench.wire.tries.length
    await bench.send({ n: 9 })
    await bench.quiet()
    assert.equal(bench.wire.tries.length, before)
    assert.deepEqual(await bench.tally(), { pending: 4 })
  })
})

async function lapsed(t: Parameters<typeof openBench>[0]): Promise<Bench> {
  const bench = await openBench(t, { lease, script: () => 'hold' })
  await bench.add({ concurrency: 1 })
  for (let n = 0; n < 3; n++) await bench.send({ n })
  await bench.quiet()
  bench.watched.refuse('beat')
  await bench.pass(lease.leaseMs + 2_000, 1_000)
  assert.deepEqual(await bench.tally(), { pending: 3 })
  return bench
}

async function heldBy(bench: Bench): Promise<readonly Delivery[]> {
  const { items } = await bench.store.listDeliveries({ statuses: ['processing'], limit: 99 })
  return items.map(({ delivery }) => delivery)
}
