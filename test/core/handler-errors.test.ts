import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import {
  fatal,
  HandlerError,
  infrastructure,
  nameLengthMax,
  retryAfter,
  stackLengthMax,
  thrownOf,
  unavailable,
} from '../../src/core/handler-errors.ts'

const facts = (error: unknown) => {
  const { verdict, message, retryAfterMs } = thrownOf(error)
  return { verdict, message, retryAfterMs }
}

describe('what a handler throws', () => {
  test('is looked at once: what answers differently the second time does no harm', () => {
    let reads = 0
    const changing = {
      get message() {
        reads += 1
        return reads === 1 ? 'first' : undefined
      },
    }
    assert.deepEqual(facts(changing), { verdict: 'retryable', message: 'first', retryAfterMs: null })
  })

  test('says by its kind what is to become of the delivery', () => {
    assert.deepEqual(facts(fatal('no such order')), {
      verdict: 'permanent',
      message: 'no such order',
      retryAfterMs: null,
    })
    assert.deepEqual(facts(retryAfter('30s', 'busy')), { verdict: 'retryable', message: 'busy', retryAfterMs: 30_000 })
    assert.equal(thrownOf(new HandlerError('retryable', 'busy', 20_000.5)).retryAfterMs, 20_001)
    assert.deepEqual(facts(infrastructure('db down')), { verdict: 'ours', message: 'db down', retryAfterMs: null })
    assert.deepEqual(facts(unavailable('payments-api')), {
      verdict: 'unavailable',
      message: 'payments-api is unavailable',
      retryAfterMs: null,
    })
    assert.deepEqual(facts(unavailable('payments-api', 'HTTP 503', { retryAfter: '1m' })), {
      verdict: 'unavailable',
      message: 'payments-api is unavailable: HTTP 503',
      retryAfterMs: 60_000,
    })
    assert.match(facts(retryAfter(1_500)).message, /after 1500ms/)
  })

  test('names its class and what is unavailable in fields of their own', () => {
    const namesOf = (error: unknown) => {
      const { errorClass, dependency } = thrownOf(error)
      return [errorClass, dependency]
    }
    class PaymentRefused extends Error {}
    class Renamed extends Error {
      override name = 'CardExpired'
    }
    assert.deepEqual(namesOf(unavailable('payments-api', 'HTTP 503')), ['HandlerError', 'payments-api'])
    assert.deepEqual(namesOf(fatal('no')), ['HandlerError', null])
    assert.deepEqual(namesOf(new TypeError('no')), ['TypeError', null])
    assert.deepEqual(namesOf(new PaymentRefused('no')), ['PaymentRefused', null])
    assert.deepEqual(namesOf(new Renamed('no')), ['CardExpired', null])
    assert.deepEqual(namesOf(new Error('no')), ['Error', null])
    assert.deepEqual(namesOf({ message: 'no' }), [null, null])
    assert.deepEqual(namesOf('no'), [null, null])
    assert.equal(namesOf(unavailable('x'.repeat(9_999)))[1]?.length, nameLengthMax)
    assert.deepEqual(namesOf(Object.assign(new Error('no'), { name: 7, dependency: 'not ours' })), ['Error', null])
  })

  test('keeps its cause', () => {
    const cause = new Error('the reason')
    const error = fatal('failed', { cause })
    assert.equal(error.cause, cause)
    assert.match(thrownOf(error).stack ?? '', /failed[\s\S]*Caused by: Error: the reason/)
  })

  test('is known when another copy of the package made it', () => {
    const error = Object.assign(new Error('elsewhere'), {
      [Symbol.for('posthorn.handler-error')]: true,
      verdict: 'permanent',
      retryAfterMs: null,
    })
    assert.equal(error instanceof HandlerError, false)
    assert.equal(thrownOf(error).verdict, 'permanent')
    const spoilt = Object.assign(new Error('x'), { [Symbol.for('posthorn.handler-error')]: true, verdict: 'delete it' })
    assert.equal(thrownOf(spoilt).verdict, 'retryable')
  })

  test('of any other kind is retryable, and told in words', () => {
    assert.equal(facts(new Error('boom')).message, 'boom')
    assert.equal(facts(new TypeError('x is not a function')).message, 'TypeError: x is not a function')
    assert.equal(facts(undefined).message, 'the handler threw undefined')
    assert.equal(facts(null).message, 'the handler threw null')
    assert.equal(facts('words').message, 'words')
    assert.equal(facts({}).message, 'the handler threw an object that is no error')
    assert.equal(facts(new Error('')).message, 'the handler threw an error without a message')
    assert.equal(facts(runInNewContext(`new RangeError('far away')`)).message, 'RangeError: far away')
  })

  test('cannot hurt whoever looks at it', () => {
    const hostile = new Proxy(new Error('x'), {
      get() {
        throw new Error('do not touch')
      },
      has() {
        throw new Error('do not look')
      },
    })
    assert.match(thrownOf(hostile).message, /cannot be looked at/)
    const endless: { message: string; cause?: unknown; stack: string } = { message: 'round', stack: 'round' }
    endless.cause = endless
    assert.equal(thrownOf(endless).message, 'round')
    fc.assert(
      fc.property(fc.anything(), (value) => {
        assert.equal(typeof thrownOf(value).message, 'string')
      }),
    )
  })

  test('has a stack that is bounded and well formed', () => {
    const error = new Error('x')
    error.stack = '\u{1f4ef}'.repeat(stackLengthMax)
    const { stack } = thrownOf(error)
    assert.ok(stack !== null && stack.length <= stackLengthMax && stack.isWellFormed())
  })

  test('refuses a wait that is none', () => {
    assert.throws(() => retryAfter('soon'), /takes a duration like '30s'.*"soon"/)
    assert.throws(() => unavailable('x', 'y', { retryAfter: -1 }), /takes a duration/)
  })
})
