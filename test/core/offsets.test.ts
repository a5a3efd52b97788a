import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Offsets } from '../../src/core/offsets.ts'

/** What a partition does: the next record comes after a gap, one that was received is completed, or the process restarts. */
type Step =
  | Readonly<{ kind: 'receive'; gap: number }>
  | Readonly<{ kind: 'complete'; which: number }>
  | Readonly<{ kind: 'restart' }>

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant('receive' as const), gap: fc.constantFrom(0, 0, 0, 0, 1, 5) }),
  },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('complete' as const), which: fc.nat({ max: 1_000 }) }) },
  { weight: 1, arbitrary: fc.constant<Step>({ kind: 'restart' }) },
)

/** The plainest tracker: it keeps everything, and looks at all of it. */
class Model {
  /** Where records are, whether somebody has received them or not. */
  readonly records: number[] = []
  readonly done = new Set<number>()
  inFlight: number[] = []
  committed: { offset: number; metadata: string } | null = null
  /** The next of `records` to receive. */
  at = 0

  get expected(): number | null {
    const lowest = Math.min(...this.inFlight)
    if (this.inFlight.length > 0) return lowest
    const last = this.records[this.at - 1]
    if (last === undefined) return this.committed?.offset ?? null
    // What was committed may lie in a gap above it.
    return Math.max(last + 1, this.committed?.offset ?? 0)
  }
}

/** Runs the steps and calls back after each. Returns both. */
function walk(steps: readonly Step[], bytesMax: number, look: (offsets: Offsets, model: Model) => void): void {
  const model = new Model()
  let offsets = new Offsets(null)
  for (const step of steps) {
    switch (step.kind) {
      case 'receive':
        receive(offsets, model, step.gap, bytesMax)
        break
      case 'complete': {
        const [offset] = model.inFlight.splice(step.which % Math.max(model.inFlight.length, 1), 1)
        if (offset === undefined) break
        model.done.add(offset)
        offsets.completed(offset)
        break
      }
      case 'restart':
        model.committed = offsets.committable(bytesMax)
        model.inFlight = []
        model.at = model.records.findIndex((offset) => offset >= (model.committed?.offset ?? 0))
        if (model.at === -1) model.at = model.records.length
        offsets = new Offsets(model.committed)
    }
    look(offsets, model)
  }
}

function receive(offsets: Offsets, model: Model, gap: number, bytesMax: number): void {
  if (model.at === model.records.length) model.records.push((model.records.at(-1) ?? 9) + 1 + gap)
  const offset = model.records[model.at]!
  model.at += 1
  const reception = offsets.received(offset)
  if (reception === 'fresh') model.inFlight.push(offset)
  // With room for all metadata, nothing is processed twice; without it, something may be. Nothing is ever left out.
  if (bytesMax > 1_000) assert.equal(reception, model.done.has(offset) ? 'done' : 'fresh')
  else assert.ok(reception === 'fresh' || model.done.has(offset), `${offset} was left out`)
}

const steps = fc.array(step, { maxLength: 300 })

test('it agrees with the plainest tracker, over restarts and gaps', () => {
  fc.assert(
    fc.property(steps, fc.constantFrom(4_095, 24, 0), (all, bytesMax) =>
      walk(all, bytesMax, (offsets, model) => {
        assert.equal(offsets.committable(bytesMax)?.offset ?? null, model.expected)
        assert.equal(offsets.incomplete, model.inFlight.length)
        assert.equal(offsets.lowestIncomplete, model.inFlight.length === 0 ? null : Math.min(...model.inFlight))
      }),
    ),
    { numRuns: 500 },
  )
})

test('what is committed never passes an incomplete one, and never goes back', () => {
  fc.assert(
    fc.property(steps, (all) => {
      let before = -1
      walk(all, 40, (offsets, model) => {
        const { offset, metadata } = offsets.committable(40) ?? { offset: -1, metadata: '' }
        for (const each of model.inFlight) assert.ok(offset <= each)
        assert.ok(offset >= before, `${offset} after ${before}`)
        assert.ok(metadata.length <= 40)
        before = offset
      })
    }),
  )
})

test('a second restart remembers what the first one was told and has not met yet', () => {
  const first = new Offsets(null)
  for (const offset of [0, 1, 2, 3, 4, 5]) first.received(offset)
  for (const offset of [1, 3, 5]) first.completed(offset)
  const second = new Offsets(first.committable())
  assert.equal(second.received(0), 'fresh')
  second.completed(0)
  assert.deepEqual(second.committable()?.offset, 1)
  const third = new Offsets(second.committable())
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6].map((offset) => third.received(offset)),
    ['done', 'fresh', 'done', 'fresh', 'done', 'fresh'],
  )
})

test('a record at or below the last one received says that the partition was rewound', () => {
  const offsets = new Offsets({ offset: 5, metadata: null })
  assert.equal(offsets.received(7), 'fresh')
  assert.equal(offsets.received(7), 'repeated')
  assert.equal(offsets.received(6), 'repeated')
  assert.equal(offsets.incomplete, 1)
  assert.equal(offsets.received(8), 'fresh')
})

test('what was done above a commit says nothing about a partition that starts below it', () => {
  const before = new Offsets({ offset: 5, metadata: null })
  for (const offset of [5, 6, 7]) before.received(offset)
  before.completed(6)
  const again = new Offsets(before.committable())
  assert.deepEqual(
    [0, 5, 6].map((offset) => again.received(offset)),
    ['fresh', 'fresh', 'fresh'],
  )
})

test('nothing is committed before anything is known', () => {
  assert.equal(new Offsets(null).committable(), null)
  assert.deepEqual(new Offsets({ offset: 5, metadata: 'of another' }).committable(), { offset: 5, metadata: '' })
})

test('a long backlog that is done in its order takes no memory and little time', () => {
  const offsets = new Offsets(null)
  const count = 300_000
  for (let offset = 0; offset < count; offset++) offsets.received(offset)
  for (let offset = 0; offset < count; offset++) offsets.completed(offset)
  assert.deepEqual(offsets.committable(), { offset: count, metadata: '' })
})
