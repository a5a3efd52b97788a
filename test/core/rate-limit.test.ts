import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fullBucket, take } from '../../src/core/rate-limit.ts'

test('never lets more through in any window than the rate and one bucket allow', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0.1, max: 1000, noNaN: true }),
      fc.array(fc.integer({ min: 0, max: 500 }), { minLength: 1, maxLength: 300 }),
      (perSecond, steps) => {
        let now = 1_000_000
        let bucket = fullBucket(perSecond, now)
        const begin = now
        let taken = 0
        for (const step of steps) {
          now += step
          const answer = take(bucket, perSecond, now)
          if (answer.kind === 'wait') continue
          bucket = answer.bucket
          taken += 1
        }
        assert.ok(taken <= Math.max(1, perSecond) + ((now - begin) * perSecond) / 1000 + 1e-6)
      },
    ),
  )
})

test('says when the next token is there, and it is there then', () => {
  let bucket = fullBucket(2, 0)
  for (let i = 0; i < 2; i++) {
    const answer = take(bucket, 2, 0)
    assert.equal(answer.kind, 'taken')
    if (answer.kind === 'taken') bucket = answer.bucket
  }
  const answer = take(bucket, 2, 0)
  assert.deepEqual(answer, { kind: 'wait', until: 500 })
  assert.equal(take(bucket, 2, 500).kind, 'taken')
})

test('a clock that goes back gives no tokens and breaks nothing', () => {
  const first = take(fullBucket(1, 1000), 1, 1000)
  assert.equal(first.kind, 'taken')
  if (first.kind === 'taken') assert.equal(take(first.bucket, 1, 0).kind, 'wait')
})
