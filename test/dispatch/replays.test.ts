import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HttpEndpoint } from '../../src/core/endpoint.ts'
import type { Replay } from '../../src/core/replay.ts'
import type { Selection } from '../../src/core/selection.ts'
import type { ReplayRunner } from '../../src/dispatch/replays.ts'
import { answered, type Bench, type BenchSettings, numberIn, openBench } from '../support/dispatch-bench.ts'

type Asked = Partial<Parameters<ReplayRunner['create']>[0]>

/** A bench whose endpoints refuse everything for good until it is told otherwise. */
async function withDeadLetters(
  t: Parameters<typeof openBench>[0],
  count: number,
  given: Partial<HttpEndpoint> = {},
  settings: BenchSettings = {},
) {
  const at = { isUp: false }
  const bench = await openBench(t, { script: () => answered(at.isUp ? 200 : 422), ...settings })
  const endpoint = await bench.add({ breaker: null, concurrency: 100, ...given })
  for (let n = 1; n <= count; n++) await bench.send({ n })
  await bench.quiet()
  assert.deepEqual(await bench.tally(), { failed: count })
  at.isUp = true
  bench.wire.tries.length = 0
  return { bench, endpoint, at }
}

function start(bench: Bench, asked: Asked = {}): Promise<Replay> {
  const selection: Selection = { kind: 'deliveries', filter: {} }
  return bench.replays.create({ tenant: null, selection, rate: null, note: '', by: 'admin', ...asked })
}

const now = (bench: Bench, id: string) => bench.store.getReplay(id).then((replay) => replay!)
const changes = ({ heard }: Bench) => heard.filter((notice) => notice.kind === 'replay.changed')

test('brings dead letters back with a fresh budget, and their numbering goes on', async (t) => {
  const { bench } = await withDeadLetters(t, 3)
  const replay = await start(bench, { note: 'fixed' })
  assert.deepEqual([replay.status, replay.matched, replay.by, replay.note], ['running', 3, 'admin', 'fixed'])
  await bench.pass(10, 1)
  assert.deepEqual(await bench.tally(), { delivered: 3 })
  assert.deepEqual(
    bench.wire.tries.map((one) => [numberIn(one.parcel), one.parcel.attempt]),
    [
      [1, 2],
      [2, 2],
      [3, 2],
    ],
  )
  const after = await now(bench, replay.id)
  assert.deepEqual([after.status, after.requeued, after.skipped], ['settled', 3, 0])
  const [first] = await bench.deliveries()
  assert.deepEqual([first!.delivery.attempts, first!.delivery.triesInBudget], [2, 1])
})

test('what fails again is not brought back a second time by the same job', async (t) => {
  const { bench, at } = await withDeadLetters(t, 5)
  at.isUp = false
  const replay = await start(bench, { rate: 10 })
  await bench.pass(3_000, 100)
  assert.equal((await now(bench, replay.id)).status, 'settled')
  assert.equal(bench.wire.tries.length, 5)
  assert.deepEqual(await bench.tally(), { failed: 5 })
})

test('keeps to its rate', async (t) => {
  const { bench } = await withDeadLetters(t, 100)
  const replay = await start(bench, { rate: 20 })
  const seen: number[] = []
  for (let second = 1; second <= 5; second++) {
    await bench.pass(1_000, 50)
    seen.push((await now(bench, replay.id)).requeued)
  }
  for (const [index, requeued] of seen.entries()) {
    const atMost = 20 * (index + 1) + 2
    assert.ok(requeued <= atMost && requeued >= atMost - 8, `${requeued} after ${index + 1} s`)
  }
  await bench.pass(1_000, 50)
  assert.equal((await now(bench, replay.id)).status, 'settled')
})

test('in an ordered lane the replayed keep their order, behind what came meanwhile', async (t) => {
  const { bench, endpoint } = await withDeadLetters(t, 30, { ordering: 'endpoint' })
  bench.wire.script = () => 'hold'
  await bench.send({ n: 100 })
  await bench.quiet()
  await start(bench, { rate: 100 })
  await bench.pass(1_000, 50)
  await bench.send({ n: 200 })
  bench.wire.script = () => answered(200)
  bench.wire.answerAll(answered(200))
  await bench.pass(1_000, 50)
  const order = bench.wire.triesOf(endpoint).map((one) => numberIn(one.parcel))
  assert.deepEqual(order, [100, ...Array.from({ length: 30 }, (_, index) => index + 1), 200])
})

test('a paused job stands still through a restart, and a resumed one goes on where it was', async (t) => {
  const { bench } = await withDeadLetters(t, 50)
  const replay = await start(bench, { rate: 10 })
  await bench.pass(2_000, 100)
  const paused = await bench.replays.change(replay.id, 'pause')
  assert.ok(paused.kind === 'changed' && paused.replay.requeued < 30)
  const again = await bench.restart({ script: () => answered(200) })
  await again.pass(5_000, 500)
  assert.equal((await now(again, replay.id)).requeued, paused.replay.requeued)
  assert.equal((await again.replays.change(replay.id, 'resume')).kind, 'changed')
  await again.pass(5_000, 100)
  const after = await now(again, replay.id)
  assert.deepEqual([after.status, after.requeued], ['settled', 50])
  assert.deepEqual(await again.tally(), { delivered: 50 })
  const tried = [...bench.wire.tries, ...again.wire.tries].map((one) => numberIn(one.parcel))
  assert.deepEqual(
    [...tried].sort((a, b) => a - b),
    Array.from({ length: 50 }, (_, index) => index + 1),
  )
})

test('a running job goes on by itself after a restart', async (t) => {
  const { bench } = await withDeadLetters(t, 40)
  const replay = await start(bench, { rate: 10 })
  await bench.pass(1_000, 100)
  const again = await bench.restart({ script: () => answered(200) })
  await again.pass(5_000, 100)
  const after = await now(again, replay.id)
  assert.deepEqual([after.status, after.requeued], ['settled', 40])
  assert.equal(bench.wire.tries.length + again.wire.tries.length, 40)
})

test('a verb that meets a step half way wins, and the job is not told of or run twice', async (t) => {
  const { bench } = await withDeadLetters(t, 3)
  const letStepsPass = bench.watched.hold('stepReplay')
  const { id } = await start(bench)
  await bench.pass(10, 1)
  assert.equal((await bench.replays.change(id, 'pause')).kind, 'changed')
  letStepsPass()
  await bench.pass(100, 10)
  assert.deepEqual(
    changes(bench).map(({ status }) => status),
    ['running', 'paused'],
  )
  assert.deepEqual(await bench.tally(), { failed: 3 })
  assert.equal((await bench.replays.change(id, 'resume')).kind, 'changed')
  await bench.pass(100, 10)
  assert.deepEqual(await bench.tally(), { delivered: 3 })
})

test('while all delivery is paused, as after a restore, no job moves', async (t) => {
  const { bench } = await withDeadLetters(t, 5)
  const replay = await start(bench, { rate: 1 })
  await bench.pass(1_000, 100)
  const again = await bench.restart({ paused: true, script: () => answered(200) })
  const { requeued } = await now(again, replay.id)
  await again.pass(10_000, 500)
  assert.equal((await now(again, replay.id)).requeued, requeued)
  again.dispatcher.paused = false
  await again.pass(10_000, 500)
  assert.equal((await now(again, replay.id)).status, 'settled')
})

test('a cancelled job leaves the rest as it is, and no verb changes it any more', async (t) => {
  const { bench } = await withDeadLetters(t, 50)
  const replay = await start(bench, { rate: 10 })
  await bench.pass(1_000, 100)
  assert.equal((await bench.replays.change(replay.id, 'cancel')).kind, 'changed')
  await bench.pass(5_000, 100)
  const after = await now(bench, replay.id)
  assert.equal(after.status, 'cancelled')
  assert.deepEqual(await bench.tally(), { delivered: after.requeued, failed: 50 - after.requeued })
  for (const verb of ['pause', 'resume', 'cancel'] as const) {
    assert.equal((await bench.replays.change(replay.id, verb)).kind, 'refused')
  }
  assert.equal((await bench.replays.change('rpl_none', 'pause')).kind, 'not_found')
})

test('those of an endpoint that is gone are skipped', async (t) => {
  const { bench, endpoint } = await withDeadLetters(t, 4)
  await bench.catalogue.remove(endpoint.id)
  const replay = await start(bench)
  await bench.pass(10, 1)
  const after = await now(bench, replay.id)
  assert.deepEqual([after.status, after.matched, after.requeued, after.skipped], ['settled', 4, 0, 4])
  assert.deepEqual(await bench.tally(), { failed: 4 })
})

test('takes turns among jobs', async (t) => {
  const { bench } = await withDeadLetters(t, 1_200, { types: ['order.created'] })
  const large = await start(bench)
  const [some] = await bench.deliveries()
  const small = await start(bench, { selection: { kind: 'deliveries', filter: { ids: [some!.delivery.id] } } })
  await bench.pass(4, 1)
  assert.equal((await now(bench, small.id)).status, 'settled')
  assert.equal((await now(bench, large.id)).status, 'running')
})

test('without a rate it waits for the endpoint to take what is there, but not for ever', async (t) => {
  const { bench, endpoint } = await withDeadLetters(t, 900, { concurrency: 1 })
  bench.wire.script = () => 'hold'
  const replay = await start(bench)
  await bench.pass(500, 10)
  const early = (await now(bench, replay.id)).requeued
  assert.ok(early <= 160, `${early} at once`)
  await bench.pass(10_000, 100)
  assert.equal((await now(bench, replay.id)).status, 'finished')
  assert.equal(bench.wire.openOf(endpoint), 1)
  bench.wire.script = () => answered(200)
  bench.wire.answerAll(answered(200))
  await bench.quiet()
  assert.deepEqual(await bench.tally(), { delivered: 900 })
})

for (const { rate, factor } of [
  { rate: null, factor: 8 },
  { rate: 100_000, factor: 2 },
]) {
  test(`after a step the store belongs to the others, ${factor} times as long, with a rate of ${rate}`, async (t) => {
    const { bench } = await withDeadLetters(t, 900)
    const release = bench.watched.hold('stepReplay')
    await start(bench, { rate })
    await bench.pass(100)
    release()
    await bench.quiet()
    await bench.pass(100 * factor - 10, 10)
    assert.equal(bench.watched.calls('stepReplay'), 1)
    await bench.pass(20, 10)
    assert.ok(bench.watched.calls('stepReplay') > 1)
  })
}

test('after a slow step the next one does more, and a job with a rate does not rest for one without', async (t) => {
  const { bench } = await withDeadLetters(t, 900)
  const release = bench.watched.hold('stepReplay')
  const unrated = await start(bench)
  await bench.pass(100)
  release()
  await bench.quiet()
  const [some] = await bench.deliveries()
  const selection = { kind: 'deliveries', filter: { ids: [some!.delivery.id] } } as const
  const rated = await start(bench, { rate: 100, selection })
  await bench.pass(20, 10)
  assert.equal((await now(bench, rated.id)).status, 'settled')
  assert.equal((await now(bench, unrated.id)).requeued, 40)
  while ((await now(bench, unrated.id)).requeued === 40) await bench.pass(10)
  assert.ok((await now(bench, unrated.id)).requeued >= 239, 'the second step was no larger than the first')
})

test('a step that the store refuses is made again later', async (t) => {
  const { bench } = await withDeadLetters(t, 3)
  bench.watched.refuse('stepReplay')
  const replay = await start(bench)
  await bench.pass(3_000, 100)
  assert.ok(bench.logged.includes('replay.step_failed'))
  assert.equal((await now(bench, replay.id)).requeued, 0)
  bench.watched.mend()
  await bench.pass(2_000, 100)
  assert.deepEqual(await bench.tally(), { delivered: 3 })
})

test('tells of its beginning, its progress now and then, and its end', async (t) => {
  const { bench } = await withDeadLetters(t, 100)
  const { id } = await start(bench, { rate: 20 })
  await bench.pass(7_000, 50)
  const told = changes(bench)
  assert.deepEqual([told[0]?.status, told[0]?.requeued, told[0]?.matched], ['running', 0, 100])
  const last = told.at(-1)
  assert.deepEqual([last?.replayId, last?.status, last?.requeued], [id, 'settled', 100])
  assert.ok(told.length >= 4 && told.length <= 9, `${told.length} notices`)
})

test('tells what becomes of the requeued, until the last outcome is known, and after a restart too', async (t) => {
  const { bench } = await withDeadLetters(t, 4)
  bench.wire.script = () => 'hold'
  const { id } = await start(bench)
  await bench.pass(1_500, 50)
  const outcomes = (told: Bench) =>
    changes(told).map(({ status, delivered, failedAgain, waiting }) => [status, delivered, failedAgain, waiting])
  assert.deepEqual(outcomes(bench).at(-1), ['finished', 0, 0, 4])
  bench.wire.tries[0]!.answer(answered(200))
  bench.wire.tries[1]!.answer(answered(422))
  await bench.pass(1_500, 50)
  assert.deepEqual(outcomes(bench).at(-1), ['finished', 1, 1, 2])
  const again = await bench.restart({ script: () => answered(422) })
  await again.pass(1_500, 50)
  assert.deepEqual(outcomes(again), [['settled', 1, 3, 0]])
  assert.deepEqual([changes(again)[0]?.replayId, changes(again)[0]?.requeued], [id, 4])
  assert.ok(again.logged.includes('replay.settled'))
  const told = changes(again).length
  await again.pass(5_000, 500)
  assert.equal(changes(again).length, told, 'what is settled is not told of again')
})

test('a cancelled job tells the outcomes of what it had requeued', async (t) => {
  const { bench } = await withDeadLetters(t, 4)
  bench.wire.script = () => 'hold'
  const { id } = await start(bench, { rate: 1 })
  await bench.pass(1_500, 50)
  await bench.replays.change(id, 'cancel')
  bench.wire.answerAll(answered(200))
  await bench.pass(2_000, 50)
  const last = changes(bench).at(-1)
  assert.deepEqual([last?.status, last?.requeued, last?.delivered, last?.waiting], ['cancelled', 2, 2, 0])
})

test('a dry run says what would come back and changes nothing', async (t) => {
  const { bench, endpoint } = await withDeadLetters(t, 12)
  const filter = { kind: 'deliveries', filter: { endpointId: endpoint.id } } as const
  const { matched, sample } = await bench.replays.preview({ selection: filter, tenant: null })
  assert.deepEqual([matched, sample.length], [12, 10])
  const other = await bench.replays.preview({ selection: filter, tenant: 'acme' })
  assert.deepEqual([other.matched, other.sample], [0, []])
  await bench.pass(1_000, 100)
  assert.deepEqual(await bench.tally(), { failed: 12 })
})

test('recovers what an endpoint failed to take, what it never got, and all of it', async (t) => {
  const { bench } = await withDeadLetters(t, 3)
  const late = await bench.add({ breaker: null, ordering: 'endpoint' })
  const recover = (only: 'failed' | 'missing' | 'all') =>
    ({ kind: 'recover', endpointId: late.id, since: bench.time.wall() - 604_800_000, only }) as const
  assert.equal((await bench.replays.preview({ selection: recover('missing'), tenant: 'default' })).matched, 3)
  const job = await start(bench, { selection: recover('missing'), tenant: 'default' })
  await bench.pass(20, 1)
  assert.deepEqual([(await now(bench, job.id)).status, (await now(bench, job.id)).requeued], ['settled', 3])
  assert.deepEqual(
    bench.wire.triesOf(late).map((one) => numberIn(one.parcel)),
    [1, 2, 3],
  )
  await start(bench, { selection: recover('failed'), tenant: 'default' })
  await bench.pass(20, 1)
  assert.equal(bench.wire.triesOf(late).length, 3)
  await start(bench, { selection: recover('all'), tenant: 'default' })
  await bench.pass(20, 1)
  assert.deepEqual(
    bench.wire.triesOf(late).map((one) => numberIn(one.parcel)),
    [1, 2, 3, 1, 2, 3],
  )
  const tooFar = { kind: 'recover', endpointId: late.id, since: 0, only: 'missing' } as const
  await assert.rejects(() => bench.replays.preview({ selection: tooFar, tenant: 'default' }), /on record for 7d/)
})
