import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Notice } from '../../src/core/notice.ts'
import { everyNotice, type NoticeFilter } from '../../src/core/notice-filter.ts'
import { Notices } from '../../src/notices.ts'
import type { Bus } from '../../src/shared-state/bus.ts'
import { MemoryBus } from '../../src/shared-state/memory-bus.ts'
import { NoticeExchange } from '../../src/shared-state/notice-exchange.ts'
import { waitingBytesMax } from '../../src/shared-state/notice-sender.ts'
import { t0 } from '../support/builders.ts'
import { eventually } from '../support/eventually.ts'

/** A bus whose texts are counted, and that can refuse them or keep them without an answer. */
class FickleBus implements Bus {
  readonly textBytesMax: number
  readonly published: string[][] = []
  isAway = false
  readonly #bus: MemoryBus
  #gate: PromiseWithResolvers<void> | null = null

  constructor(group: Set<MemoryBus>, textBytesMax: number) {
    this.#bus = new MemoryBus(group)
    this.textBytesMax = textBytesMax
  }

  hold(): () => void {
    const gate = Promise.withResolvers<void>()
    this.#gate = gate
    return () => {
      this.#gate = null
      gate.resolve()
    }
  }

  async publish(texts: readonly string[]): Promise<boolean> {
    this.published.push([...texts])
    for (const text of texts) assert.ok(Buffer.byteLength(text) <= this.textBytesMax, `${text.length} characters`)
    await this.#gate?.promise
    return !this.isAway && this.#bus.publish(texts)
  }

  onText(listener: (text: string) => void): void {
    this.#bus.onText(listener)
  }

  close(): Promise<void> {
    return this.#bus.close()
  }
}

function openScene(t: TestContext, textBytesMax = 8_000) {
  const group = new Set<MemoryBus>()
  const time = { now: t0 }
  const member = () => {
    const bus = new FickleBus(group, textBytesMax)
    const notices = new Notices((error) => assert.fail(String(error)))
    const counted = { sent: 0, dropped: 0 }
    const exchange = new NoticeExchange({
      bus,
      notices,
      clock: { wall: () => time.now, steady: () => time.now, monotonic: () => time.now },
      onSent: (result, count) => {
        counted[result] += count
      },
    })
    t.after(() => exchange.close())
    const heard: Notice[] = []
    const dropped: [tenant: string | null, count: number][] = []
    const listen = (...filters: readonly NoticeFilter[]) =>
      exchange.listen(filters, {
        happened: (notice, at) => {
          assert.equal(at, time.now)
          heard.push(notice)
        },
        dropped: (tenant, count) => dropped.push([tenant, count]),
      })
    return { bus, notices, exchange, counted, heard, dropped, listen }
  }
  const bare = new MemoryBus(group)
  return { member, time, bare }
}

type Member = ReturnType<ReturnType<typeof openScene>['member']>

function accepted(eventId: string, given: Partial<Notice & { type: string }> = {}): Notice {
  return { kind: 'event.accepted', tenant: 'acme', eventId, type: 'order.created', deliveries: 1, ...given } as Notice
}

function subscribed({ notices }: Member, isSubscribed: boolean): Promise<true> {
  return eventually(`it is ${isSubscribed}`, async () => (notices.heard === isSubscribed ? true : null))
}

function heardOf({ heard, dropped }: Member, count: number): Promise<true> {
  const all = () => heard.length + dropped.reduce((sum, [, some]) => sum + some, 0)
  return eventually(`${count} are heard of`, async () => (all() >= count ? true : null))
}

const idsOf = ({ heard }: Member) => heard.map((notice) => ('eventId' in notice ? notice.eventId : notice.kind))

test('while nobody listens elsewhere, nobody is subscribed and nothing is sent', async (t) => {
  const { member } = openScene(t)
  const [here, there] = [member(), member()]
  assert.equal(there.notices.heard, false)
  there.notices.publish(accepted('evt_1'))
  here.listen(everyNotice)
  await subscribed(there, true)
  assert.equal(here.notices.heard, false)
  there.notices.publish(accepted('evt_2'))
  await heardOf(here, 1)
  assert.deepEqual(idsOf(here), ['evt_2'])
  assert.equal(there.bus.published.length, 1)
  here.listen()
  await subscribed(there, false)
  there.notices.publish(accepted('evt_3'))
  assert.equal(there.exchange.listeningMembers, 0)
  assert.equal(there.bus.published.length, 1)
  assert.deepEqual(there.counted, { sent: 1, dropped: 0 })
})

test('what still waits when the last listener leaves is forgotten', async (t) => {
  const { member } = openScene(t)
  const [here, there, late] = [member(), member(), member()]
  here.listen(everyNotice)
  await subscribed(there, true)
  there.notices.publish(accepted('evt_1'))
  here.listen()
  await subscribed(there, false)
  late.listen(everyNotice)
  await subscribed(there, true)
  there.notices.publish(accepted('evt_2'))
  await heardOf(late, 1)
  assert.deepEqual(idsOf(late), ['evt_2'])
})

test('what happened elsewhere reaches who listens, once and in its order, and no other listener of a process', async (t) => {
  const { member } = openScene(t)
  const [a, b, c] = [member(), member(), member()]
  const counted: string[] = []
  for (const each of [a, b, c]) {
    each.notices.subscribe((notice) => counted.push('eventId' in notice ? notice.eventId : notice.kind))
  }
  a.listen(everyNotice)
  b.listen({ ...everyNotice, tenant: 'globex' })
  await eventually('all know', async () => (c.exchange.listeningMembers === 2 ? true : null))
  for (const id of ['evt_1', 'evt_2', 'evt_3']) c.notices.publish(accepted(id))
  b.notices.publish(accepted('evt_4'))
  await heardOf(a, 4)
  assert.deepEqual(idsOf(a).toSorted(), ['evt_1', 'evt_2', 'evt_3', 'evt_4'])
  assert.deepEqual(
    idsOf(a).filter((id) => id !== 'evt_4'),
    ['evt_1', 'evt_2', 'evt_3'],
  )
  assert.deepEqual(counted, ['evt_1', 'evt_2', 'evt_3', 'evt_4'])
  assert.equal(c.bus.published.length, 1, 'what happens within a moment is sent together')
})

test('only what somebody wants is sent, and not what every process finds by itself', async (t) => {
  const { member } = openScene(t)
  const [here, there] = [member(), member()]
  here.listen({ ...everyNotice, types: ['order.*'] }, { ...everyNotice, kinds: ['endpoint.changed', 'lane.stuck'] })
  await subscribed(there, true)
  there.notices.publish(accepted('evt_1', { type: 'invoice.paid' }))
  there.notices.publish(accepted('evt_2'))
  const tenant = 'acme'
  there.notices.publish({ kind: 'endpoint.changed', tenant, endpointId: 'ep_1', status: 'paused', statusReason: null })
  there.notices.publish({ kind: 'lane.stuck', tenant, endpointId: 'ep_1', deliveryId: 'dlv_1', lane: 'a', sinceMs: 1 })
  await heardOf(here, 2)
  assert.deepEqual(idsOf(here), ['evt_2', 'lane.stuck'])
  assert.deepEqual(there.counted, { sent: 2, dropped: 0 })
})

test('a listener is known again and again, and lapses when nothing is heard of it any more', async (t) => {
  const { member, time, bare } = openScene(t)
  const [here, late] = [member(), member()]
  here.listen(everyNotice)
  await eventually('it is said twice', async () => (here.bus.published.length >= 2 ? true : null))
  const newcomer = member()
  await subscribed(newcomer, true)
  assert.equal(late.exchange.listeningMembers, 1)
  // As if it had been killed.
  await here.bus.close()
  time.now += 60_000
  await subscribed(late, false)
  assert.equal(late.exchange.listeningMembers, 0)
  await bare.publish([JSON.stringify({ kind: 'listening', from: 'x', forMs: 5_000, filters: [everyNotice] })])
  await subscribed(late, true)
})

test('of a burst as much is sent as fits, and the rest is counted, for each tenant', async (t) => {
  const { member } = openScene(t)
  const [here, there] = [member(), member()]
  here.listen(everyNotice)
  await subscribed(there, true)
  for (let n = 0; n < 3_000; n++)
    there.notices.publish(accepted(`evt_${n}`, { tenant: n % 3 === 0 ? 'globex' : 'acme' }))
  await heardOf(here, 3_000)
  assert.ok(here.heard.length > 100, `${here.heard.length} were sent`)
  assert.ok(Buffer.byteLength(there.bus.published.flat().join()) < waitingBytesMax * 1.1)
  assert.deepEqual(
    idsOf(here),
    Array.from({ length: here.heard.length }, (_, n) => `evt_${n}`),
  )
  const missing = (tenant: string, all: number) => all - here.heard.filter((notice) => notice.tenant === tenant).length
  assert.deepEqual(
    new Map(here.dropped),
    new Map([
      ['globex', missing('globex', 1_000)],
      ['acme', missing('acme', 2_000)],
    ]),
  )
  assert.deepEqual(there.counted, { sent: here.heard.length, dropped: 3_000 - here.heard.length })
  there.notices.publish(accepted('after'))
  await heardOf(here, 3_001)
  assert.equal(idsOf(here).at(-1), 'after')
})

test('while the bus takes nothing, a bounded part waits, and what was lost is said later', async (t) => {
  const { member } = openScene(t)
  const [here, there, witness] = [member(), member(), member()]
  here.listen(everyNotice)
  await Promise.all([subscribed(there, true), subscribed(witness, true)])
  const release = there.bus.hold()
  there.bus.isAway = true
  there.notices.publish(accepted('evt_0'))
  await eventually('it is being sent', async () => (there.bus.published.length === 1 ? true : null))
  for (let n = 1; n < 3_000; n++) there.notices.publish(accepted(`evt_${n}`))
  witness.notices.publish(accepted('witness'))
  await heardOf(here, 1)
  assert.equal(there.bus.published.length, 1, 'the next batch waits for the answer')
  release()
  await eventually('it was tried again', async () => (there.bus.published.length >= 3 ? true : null))
  assert.deepEqual(idsOf(here), ['witness'])
  assert.deepEqual(there.counted, { sent: 0, dropped: 3_000 })
  there.bus.isAway = false
  await heardOf(here, 3_001)
  assert.deepEqual(here.dropped, [['acme', 3_000]])
})

test('a notice that fits into no text is dropped and counted', async (t) => {
  const { member } = openScene(t, 1_000)
  const [here, there] = [member(), member()]
  here.listen(everyNotice)
  await subscribed(there, true)
  for (const length of [1, 2_000, 500, 500, 700]) there.notices.publish(accepted('e'.repeat(length)))
  await heardOf(here, 5)
  assert.deepEqual(
    idsOf(here).map((id) => id.length),
    [1, 500, 500, 700],
  )
  assert.deepEqual(here.dropped, [['acme', 1]])
})

test('more filters than fit into a text become one for everything', async (t) => {
  const { member } = openScene(t, 1_000)
  const [here, there] = [member(), member()]
  here.listen(...Array.from({ length: 50 }, (_, n) => ({ ...everyNotice, types: [`type.${n}`] })))
  await subscribed(there, true)
  there.notices.publish(accepted('evt_1'))
  await heardOf(here, 1)
})

test('what is no message is passed over, and a notice of a newer version is passed on', async (t) => {
  const { member, bare } = openScene(t)
  const here = member()
  here.listen(everyNotice)
  const items = [{ at: t0, notice: { kind: 'moon.rose', tenant: null, phase: 'full' } }]
  const { kind, ...facts } = accepted('evt_1')
  const wrong = [
    { at: 1e300, notice: { kind, ...facts } },
    { at: t0, notice: { kind, ...facts, startedAt: 'noon' } },
    { at: t0, notice: { kind: `${kind}\n`, ...facts } },
    { at: t0, notice: { kind } },
    { at: t0 },
    { tenant: 'acme', dropped: 'many' },
  ]
  await bare.publish(['', 'null', '{', '{"kind":"listening"}'])
  await bare.publish(wrong.map((item) => JSON.stringify({ kind: 'happened', from: 'x', items: [item] })))
  await bare.publish([JSON.stringify({ kind: 'happened', from: 'x', items })])
  await heardOf(here, 1)
  assert.deepEqual(here.heard, [{ kind: 'moon.rose', tenant: null, phase: 'full' }])
})

test('who listens no more, or has closed, hears nothing', async (t) => {
  const { member, bare } = openScene(t)
  const [here, there, witness] = [member(), member(), member()]
  for (const each of [here, there, witness]) each.listen(everyNotice)
  here.listen()
  await there.exchange.close()
  await there.exchange.close()
  const items = [
    { at: t0, notice: accepted('evt_1') },
    { tenant: 'acme', dropped: 3 },
  ]
  await bare.publish([JSON.stringify({ kind: 'happened', from: 'x', items })])
  await heardOf(witness, 4)
  for (const each of [here, there]) assert.deepEqual([each.heard, each.dropped], [[], []])
})
