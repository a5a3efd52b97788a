import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { dataOf } from '../../src/core/event.ts'
import { numberOf } from '../../src/core/id.ts'
import { envelope } from '../../src/intake/envelope.ts'
import { IdSource } from '../../src/intake/ids.ts'
import { t0 } from '../support/builders.ts'
import { anInput, openBench } from '../support/dispatch-bench.ts'

const nothing = { inFlight: 0, queued: 0, bytes: 0 }

describe('the intake', () => {
  test('answers after the event is on disk, and hands it over', async (t) => {
    const bench = await openBench(t)
    const endpoint = await bench.add()
    const goOn = bench.watched.hold('append')
    let isAnswered = false
    const accepted = bench.send({ n: 5, key: 'k', headers: { 'x-own': 'yes' } }).then((id) => {
      isAnswered = true
      return id
    })
    await bench.quiet()
    assert.deepEqual([isAnswered, bench.wire.tries.length], [false, 0])
    assert.equal(bench.dispatcher.load().queued, 1, 'a slot is reserved for it')
    goOn()
    const id = await accepted
    const event = await bench.store.getEvent(id)
    assert.deepEqual([event?.key, event?.headers, event?.receivedAt], ['k', { 'x-own': 'yes' }, t0])
    await bench.quiet()
    const [one] = bench.wire.tries
    assert.deepEqual([one!.parcel.event.id, one!.parcel.endpoint.id], [id, endpoint.id])
  })

  test('keeps an event that nobody wants', async (t) => {
    const bench = await openBench(t)
    await bench.add({ types: ['invoice.*'] })
    const answer = await bench.intake.accept([anInput()])
    assert.ok(answer.kind === 'accepted')
    assert.equal(answer.items[0]!.deliveries, 0)
    assert.notEqual(await bench.store.getEvent(answer.items[0]!.id), null)
  })

  test('answers a repeat under the same key with the first event, and delivers once', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    const idempotency = { scope: 'tenant:default', key: 'order-1', fingerprint: 'a', keptMs: 86_400_000 }
    const first = await bench.send({ idempotency })
    const again = await bench.intake.accept([anInput({ idempotency }), anInput({ n: 2 })])
    assert.ok(again.kind === 'accepted')
    assert.deepEqual(
      again.items.map((item) => [item.id === first, item.duplicate, item.deliveries]),
      [
        [true, true, 1],
        [false, false, 1],
      ],
    )
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 2)
    assert.deepEqual(bench.dispatcher.load(), nothing)
  })

  test('a key that was used for something else refuses the whole batch and reserves nothing', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    await bench.send({ idempotency: { scope: 'tenant:default', key: 'order-1', fingerprint: 'a', keptMs: 86_400_000 } })
    await bench.quiet()
    const other = anInput({
      idempotency: { scope: 'tenant:default', key: 'order-1', fingerprint: 'b', keptMs: 86_400_000 },
    })
    const answer = await bench.intake.accept([anInput(), other, anInput()])
    assert.deepEqual(answer, { kind: 'key_reused', indexes: [1] })
    await bench.quiet()
    assert.equal(bench.wire.tries.length, 1)
    assert.equal((await bench.deliveries()).length, 1)
    assert.deepEqual(bench.dispatcher.load(), nothing)
  })

  test('is full when too many bytes wait for the disk, and has room again after they are written', async (t) => {
    const bench = await openBench(t, { waitingBytesMax: 100 })
    const content = { kind: 'raw' as const, bytes: Buffer.alloc(60), type: 'text/plain' }
    const goOn = bench.watched.hold('append')
    const first = bench.send({ content })
    assert.equal(bench.intake.waitingBytes, 60)
    await assert.rejects(bench.send({ content }), { code: 'intake_full' })
    goOn()
    await first
    assert.equal(bench.intake.waitingBytes, 0)
    await bench.send({ content })
    // One that is larger than the limit by itself is not refused for ever.
    await bench.send({ content: { ...content, bytes: Buffer.alloc(500) } })
  })

  test('is full when too many events wait for the disk, however small, and has room again after', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    const goOn = bench.watched.hold('append')
    const batch = Array.from({ length: 10_000 }, () => anInput())
    const waiting = [bench.intake.accept(batch), bench.intake.accept(batch)]
    // Each event has one delivery: 40,000 rows wait.
    await assert.rejects(bench.intake.accept(batch), { code: 'intake_full' })
    goOn()
    await Promise.all(waiting)
    await bench.intake.accept([anInput()])
  })

  test('refuses what comes after a stop, and answers what came before', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    const before = bench.send()
    bench.intake.stop()
    await assert.rejects(bench.send(), { code: 'shutting_down' })
    assert.match(await before, /^evt_/)
  })

  test('a refused append leaves nothing waiting and tells why', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    bench.watched.refuse('append')
    await assert.rejects(bench.intake.accept([anInput(), anInput()]), { code: 'store_full' })
    assert.equal(bench.intake.waitingBytes, 0)
    assert.deepEqual(bench.dispatcher.load(), nothing)
    assert.equal((await bench.deliveries()).length, 0)
  })

  test('data gets the envelope byte by byte; raw bytes are sent as they came', async (t) => {
    const bench = await openBench(t)
    await bench.add()
    const data = Buffer.from('{ "a":1.0, "b":"é\\u00e9", "a":2e400 }')
    const raw = Buffer.from([0, 255, 10, 13, 34])
    await bench.send({ type: 'order.created', content: { kind: 'data', bytes: data } })
    await bench.send({ content: { kind: 'raw', bytes: raw, type: 'application/octet-stream' } })
    await bench.quiet()
    const [wrapped, plain] = bench.wire.tries.map((one) => one.parcel.event)
    const head = `{"type":"order.created","timestamp":"2026-01-01T00:00:00.000Z","data":`
    assert.deepEqual(Buffer.from(wrapped!.body), Buffer.concat([Buffer.from(head), data, Buffer.from('}')]))
    assert.deepEqual(Buffer.from(dataOf(wrapped!)), data)
    assert.equal(wrapped!.contentType, 'application/json')
    assert.deepEqual([Buffer.from(plain!.body), plain!.contentType], [raw, 'application/octet-stream'])
  })
})

describe('ids', () => {
  test('only grow, whatever the clock does, also over a restart', async (t) => {
    let bench = await openBench(t)
    await bench.add()
    const ids: string[] = []
    for (const skewMs of [0, 86_400_000, -86_400_000, 1]) {
      bench.time.skewMs = skewMs
      for (let n = 0; n < 3; n++) ids.push(await bench.send({ n }))
      await bench.quiet()
      bench = await bench.restart()
    }
    assert.deepEqual(ids.toSorted(), ids)
    assert.equal(new Set(ids).size, ids.length)
  })

  test('share one row of numbers among their prefixes', () => {
    const ids = new IdSource(0)
    const numbers = Array.from({ length: 5_000 }, (_, n) => {
      const prefix = n % 2 === 0 ? 'evt' : 'dlv'
      return numberOf(prefix, ids.next(prefix, t0))!
    })
    assert.ok(numbers.every((number, index) => index === 0 || number > numbers[index - 1]!))
  })
})

describe('the envelope', () => {
  test('is JSON around any JSON, whatever the type is called', () => {
    for (const text of ['null', '"x"', '[1,2]', '{"a":{"b":[]}}', ' 1 ']) {
      const { body, dataOffset } = envelope('a/b:c-d_e', t0, Buffer.from(text))
      assert.deepEqual(JSON.parse(Buffer.from(body).toString()), {
        type: 'a/b:c-d_e',
        timestamp: new Date(t0).toISOString(),
        data: JSON.parse(text),
      })
      assert.equal(Buffer.from(dataOf({ body, dataOffset })).toString(), text)
    }
  })
})
