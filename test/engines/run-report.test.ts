import assert from 'node:assert/strict'
import { test } from 'node:test'
import { classify } from '../../src/core/failure-classifier.ts'
import { failedRun } from '../../src/core/handler-errors.ts'
import { reportOf } from '../../src/engines/run-report.ts'
import { t0 } from '../support/builders.ts'

const died = { signal: null, code: null, lastWords: null, uncaught: null }

test('takes a death for a retryable failure that names how the worker ended', () => {
  const report = reportOf({ kind: 'died', death: { ...died, signal: 'SIGKILL' } }, 1_000)
  const error = 'the worker was killed by SIGKILL'
  assert.deepEqual(classify(report, {}, t0), { kind: 'retryable', error, retryAfterMs: null })
})

test('shows class and stack of an error that nothing caught, and does not obey it', () => {
  const uncaught = { ...failedRun('boom'), verdict: 'permanent', errorClass: 'TypeError', stack: 'at x' } as const
  const report = reportOf({ kind: 'died', death: { ...died, signal: 'SIGKILL', uncaught } }, 1_000)
  const error = 'the worker ended with an uncaught error: boom'
  assert.ok(report.kind === 'thrown')
  assert.deepEqual(
    [report.verdict, report.message, report.errorClass, report.stack],
    ['retryable', error, 'TypeError', 'at x'],
  )
})
