import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Outcome } from '../../src/core/outcome.ts'
import { type RecordStep, stepAfter } from '../../src/core/record-step.ts'
import { presets } from '../../src/core/retry-policy.ts'

const now = 1_000_000
const retryable: Outcome = { kind: 'retryable', error: 'no', retryAfterMs: null }

const cases: readonly (readonly [string, Outcome, number, RecordStep])[] = [
  ['a success', { kind: 'delivered' }, 1, { kind: 'done' }],
  [
    'a fatal failure',
    { kind: 'permanent', reason: 'rejected_by_handler', error: 'no' },
    1,
    { kind: 'dead', reason: 'rejected_by_handler' },
  ],
  ['the first failure', retryable, 1, { kind: 'again', dueAt: now + 1_100 }],
  ['the second', retryable, 2, { kind: 'again', dueAt: now + 2_100 }],
  ['the third', retryable, 3, { kind: 'dead', reason: 'exhausted' }],
  [
    'one that asks for more time',
    { kind: 'retryable', error: 'no', retryAfterMs: 60_000 },
    1,
    { kind: 'again', dueAt: now + 60_000 },
  ],
  ['something of our own that is down', { kind: 'ours', error: 'no' }, 9, { kind: 'hold' }],
]

describe('after an attempt at a record', () => {
  for (const [what, outcome, tries, expected] of cases) {
    test(what, () => {
      assert.deepEqual(stepAfter({ outcome, tries, policy: presets.kafka, random: 0.5, now }), expected)
    })
  }
})
