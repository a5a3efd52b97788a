import assert from 'node:assert/strict'
import { test } from 'node:test'
import { classify } from '../../src/core/failure-classifier.ts'
import type { Run } from '../../src/engines/engine.ts'
import { reportOf } from '../../src/transports/handler/run-report.ts'
import { t0 } from '../support/builders.ts'

const deaths: readonly (readonly [Pick<Extract<Run, { kind: 'died' }>, 'signal' | 'code'>, string])[] = [
  [{ signal: 'SIGKILL', code: null }, 'the worker was killed by SIGKILL'],
  [{ signal: null, code: 3 }, 'the worker exited with code 3'],
  [{ signal: null, code: 0 }, 'the worker exited with code 0'],
  [{ signal: null, code: null }, 'the worker died'],
]
for (const [death, error] of deaths) {
  test(`takes a death for a retryable failure: ${error}`, () => {
    const report = reportOf({ kind: 'died', ...death }, 1_000)
    assert.deepEqual(classify(report, {}, t0), { kind: 'retryable', error, retryAfterMs: null })
  })
}
