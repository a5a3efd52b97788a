import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { windowMax, windowOf } from '../../src/core/window.ts'

const cases: readonly (readonly [string, Parameters<typeof windowOf>[0], number])[] = [
  ['nothing may be tried here', { concurrency: 0, attemptMs: 5, isShared: true }, 0],
  ['alone, not known: a fair start', { concurrency: 1, attemptMs: null, isShared: false }, 64],
  ['alone, not known: more with more slots', { concurrency: 10, attemptMs: null, isShared: false }, 160],
  ['alone, not known: no more than a thousand', { concurrency: 100, attemptMs: null, isShared: false }, 1_024],
  ['alone, not known: twice the slots', { concurrency: 1_000, attemptMs: null, isShared: false }, 2_000],
  ['shared, not known: the others get the rest', { concurrency: 8, attemptMs: null, isShared: true }, 16],
  ['slow attempts: twice the slots', { concurrency: 8, attemptMs: 30_000, isShared: true }, 16],
  ['slow attempts, alone', { concurrency: 8, attemptMs: 30_000, isShared: false }, 16],
  ['what is done in half a second', { concurrency: 10, attemptMs: 10, isShared: true }, 500],
  ['quick attempts: no more than the largest', { concurrency: 64, attemptMs: 0.05, isShared: false }, windowMax],
  ['attempts that take no time', { concurrency: 100, attemptMs: 0, isShared: false }, windowMax],
  [
    'quick attempts, one slot: not thousands for an endpoint that may hang',
    { concurrency: 1, attemptMs: 0.05, isShared: false },
    64,
  ],
]

describe('the window of an endpoint', () => {
  for (const [what, needs, expected] of cases) test(what, () => assert.equal(windowOf(needs), expected))
})
