import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { type DeliveryStatus, deliveryStatuses } from '../../src/core/delivery.ts'
import {
  arrivalPosition,
  continuesChain,
  isChainVoid,
  isParkedAfter,
  laneEffect,
  laneOf,
  type Place,
  placeOf,
  promotionOf,
  replayPosition,
  waitsBehind,
} from '../../src/core/lanes.ts'

test('unordered endpoints have no lanes', () => {
  assert.equal(laneOf('none', 'order-1'), null)
  assert.equal(laneOf('none', null), null)
})

test('ordering by key gives each key its lane and leaves events without a key unordered', () => {
  assert.equal(laneOf('key', null), null)
  assert.equal(laneOf('key', 'a'), laneOf('key', 'a'))
  assert.notEqual(laneOf('key', 'a'), laneOf('key', 'b'))
  assert.notEqual(laneOf('key', ''), null)
})

test('ordering by endpoint puts everything in one lane, which no key can name', () => {
  const lane = laneOf('endpoint', null)
  assert.notEqual(lane, null)
  assert.equal(laneOf('endpoint', 'a'), lane)
  assert.notEqual(laneOf('key', 'all'), lane)
})

test('an arrival takes its own number, unless a replay has gone beyond it', () => {
  const table: readonly (readonly [number: number, tail: number | null, position: number])[] = [
    [10, null, 10],
    [10, 9, 10],
    [10, 10, 11],
    [10, 99, 100],
  ]
  for (const [number, tail, position] of table) assert.equal(arrivalPosition(number, tail), position)
})

test('a replay goes behind its lane and behind every number given so far', () => {
  const table: readonly (readonly [newest: number, tail: number | null, position: number])[] = [
    [10, null, 11],
    [10, 7, 11],
    [10, 10, 11],
    [10, 99, 100],
  ]
  for (const [newest, tail, position] of table) assert.equal(replayPosition(newest, tail), position)
})

test('the head is what is in hand, has a due time, or was promoted in the same call', () => {
  const table: readonly (readonly [DeliveryStatus, dueAt: number | null, isPromoted: boolean, Place])[] = [
    ['pending', 5, false, 'head'],
    ['pending', null, false, 'behind'],
    ['pending', null, true, 'head'],
    ['processing', 5, false, 'head'],
    ['delivered', null, false, 'out'],
    ['failed', null, false, 'out'],
    ['dead_letter', null, true, 'out'],
  ]
  for (const [status, dueAt, isPromoted, place] of table) assert.equal(placeOf(status, dueAt, isPromoted), place)
})

test('only what is pending is parked: behind another, or entering a lane that is not empty', () => {
  const table: readonly (readonly [Place, tail: number | null, isParked: boolean])[] = [
    ['head', null, false],
    ['head', 7, false],
    ['behind', null, true],
    ['behind', 7, true],
    ['out', null, false],
    ['out', 7, true],
  ]
  for (const [place, tail, isParked] of table) {
    const parked = deliveryStatuses.filter((status) => isParkedAfter(place, status, tail))
    assert.deepEqual(parked, isParked ? ['pending'] : [], `${place} ${tail}`)
  }
})

test('a lane moves when its head ends, and what comes back enters it', () => {
  const table = (['head', 'behind', 'out'] as const).map((place) => [
    place,
    ...deliveryStatuses.map((status) => laneEffect(place, status)),
  ])
  assert.deepEqual(table, [
    ['head', 'none', 'none', 'moves', 'moves', 'moves'],
    ['behind', 'none', 'none', 'none', 'none', 'none'],
    ['out', 'enters', 'none', 'none', 'none', 'none'],
  ])
})

test('the next is claimed when the dispatcher asks for it and its body is not large, or else due when the head ended', () => {
  const released = { kind: 'release', dueAt: 9 }
  assert.deepEqual(promotionOf(60_000, false, 9), { kind: 'claim', leaseEndsAt: 60_000 })
  assert.deepEqual(promotionOf(60_000, true, 9), released)
  assert.deepEqual(promotionOf(null, false, 9), released)
  assert.deepEqual(promotionOf(null, true, 9), released)
})

test('a chain goes on with what is still pending as it was read', () => {
  assert.equal(continuesChain('pending', 3, 3), true)
  assert.equal(continuesChain('pending', 4, 3), false)
  assert.equal(continuesChain('processing', 3, 3), false)
})

test('a chain is void behind a change that did not end the head', () => {
  assert.equal(isChainVoid(true, false), true)
  assert.equal(isChainVoid(true, true), false)
  assert.equal(isChainVoid(false, false), false)
})

describe('a lane that follows the rules', () => {
  type Row = { number: number; position: number; status: DeliveryStatus; dueAt: number | null; enteredAs: number }
  type Act = Readonly<{ do: 'arrive' | 'claim' | 'end' | 'cancel' | 'replay'; which: number }>

  const act: fc.Arbitrary<Act> = fc.record({
    do: fc.constantFrom('arrive', 'claim', 'end', 'cancel', 'replay'),
    which: fc.nat({ max: 20 }),
  })

  /** What a store does: it reads facts, asks the rules, and writes. */
  class Lane {
    readonly rows: Row[] = []
    #entered = 0

    live(): readonly Row[] {
      const live = this.rows.filter(({ status }) => status === 'pending' || status === 'processing')
      return live.sort((a, b) => a.position - b.position)
    }

    tail(): number | null {
      return this.live().at(-1)?.position ?? null
    }

    newest(): number {
      return this.rows.reduce((newest, { number }) => Math.max(newest, number), 0)
    }

    arrive(): void {
      const number = this.newest() + 1
      const dueAt = waitsBehind(this.tail()) ? null : 0
      const position = arrivalPosition(number, this.tail())
      this.rows.push({ number, position, status: 'pending', dueAt, enteredAs: this.#entered++ })
    }

    change(row: Row, status: DeliveryStatus): void {
      const place = placeOf(row.status, row.dueAt, false)
      const tail = this.tail()
      const effect = laneEffect(place, status)
      row.dueAt = status !== 'pending' || isParkedAfter(place, status, tail) ? null : 0
      row.status = status
      if (effect === 'enters') {
        row.position = replayPosition(this.newest(), tail)
        row.enteredAs = this.#entered++
      }
      const next = effect === 'moves' ? this.live()[0] : undefined
      if (next !== undefined) next.dueAt = 0
    }

    run({ do: verb, which }: Act): void {
      const row = this.rows[which % Math.max(1, this.rows.length)]
      if (verb === 'arrive') this.arrive()
      if (row === undefined) return
      const place = placeOf(row.status, row.dueAt, false)
      if (verb === 'claim' && place === 'head') row.status = 'processing'
      if (verb === 'end' && row.status === 'processing') this.change(row, 'delivered')
      if (verb === 'cancel' && row.status === 'pending') this.change(row, 'failed')
      if (verb === 'replay' && place === 'out') this.change(row, 'pending')
    }
  }

  test('has exactly one head while it has anything, in the order of entering', () => {
    fc.assert(
      fc.property(fc.array(act, { maxLength: 80 }), (acts) => {
        const lane = new Lane()
        for (const step of acts) {
          lane.run(step)
          const live = lane.live()
          const places = live.map(({ status, dueAt }) => placeOf(status, dueAt, false))
          assert.deepEqual(
            places,
            live.map((_, index) => (index === 0 ? 'head' : 'behind')),
          )
          assert.equal(new Set(live.map(({ position }) => position)).size, live.length)
          const entered = live.map(({ enteredAs }) => enteredAs)
          assert.deepEqual(
            entered,
            entered.toSorted((a, b) => a - b),
          )
        }
      }),
    )
  })
})
