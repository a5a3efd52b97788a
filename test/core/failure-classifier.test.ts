import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  type Classification,
  classify,
  parseRetryAfter,
  retryAfterMsMax,
  withAnswer,
} from '../../src/core/failure-classifier.ts'
import type { Outcome, Report } from '../../src/core/outcome.ts'

const now = Date.UTC(2026, 6, 26, 12, 0, 0)

function answered(statusCode: number, headers: Record<string, string> = {}): Report {
  return { kind: 'answered', statusCode, headers, body: 'ignored' }
}

function outcomeOf(statusCode: number, classification: Classification = {}): Outcome {
  return classify(answered(statusCode), classification, now)
}

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}

test('classifies every status from 100 to 599', () => {
  // S3, to the letter.
  const permanent = [400, 401, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 426, 431]
  const retryable = [408, 429]
  const unavailable = [500, 502, 503, 504]
  // Decided by us.
  const otherPermanent = [...range(300, 399), 402, 407, 409, 412, ...range(416, 421), 423, 424, 427, 428, 430]
  otherPermanent.push(...range(432, 499))
  retryable.push(425)
  unavailable.push(...range(100, 199), 501, ...range(505, 507), ...range(509, 599))

  const expected = new Map<number, Outcome>()
  for (const status of range(200, 299)) expected.set(status, { kind: 'delivered' })
  for (const status of [...permanent, ...otherPermanent]) {
    const reason = status === 410 ? 'gone' : 'permanent_status'
    expected.set(status, { kind: 'permanent', reason, error: `HTTP ${status}` })
  }
  for (const status of retryable)
    expected.set(status, { kind: 'retryable', error: `HTTP ${status}`, retryAfterMs: null })
  for (const status of unavailable) {
    expected.set(status, { kind: 'unavailable', error: `HTTP ${status}`, retryAfterMs: null })
  }
  expected.set(508, { kind: 'permanent', reason: 'permanent_status', error: 'HTTP 508: loop detected' })
  assert.equal(expected.size, 500)
  for (const [status, outcome] of expected) assert.deepEqual(outcomeOf(status), outcome)
})

test('a number that HTTP does not know is no answer', () => {
  for (const status of [0, 99, 600, 999]) assert.equal(outcomeOf(status, { '5xx': 'permanent' }).kind, 'unavailable')
})

test('without a status the endpoint is unavailable, unless we ran out of something ourselves', () => {
  const unavailable = [
    ...['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN'],
    ...['CERT_HAS_EXPIRED', 'DEPTH_ZERO_SELF_SIGNED_CERT', 'ERR_TLS_CERT_ALTNAME_INVALID', 'EPROTO', 'DEADLINE'],
    ...['UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'HPE_INVALID_CONSTANT', 'WHATEVER', ''],
  ]
  const ours = ['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS', 'EADDRNOTAVAIL', 'ENOSPC', 'HUB_MEMORY']
  for (const code of unavailable) {
    const outcome = classify({ kind: 'unreachable', code, message: 'connect failed' }, {}, now)
    assert.deepEqual(outcome, { kind: 'unavailable', error: `${code}: connect failed`, retryAfterMs: null })
  }
  for (const code of ours) {
    const outcome = classify({ kind: 'unreachable', code, message: 'connect failed' }, {}, now)
    assert.deepEqual(outcome, { kind: 'ours', error: `${code}: connect failed` })
  }
})

test('what the other end says to be too large is permanent, whatever the classification', () => {
  const report: Report = { kind: 'oversized', message: `the hub takes 1024 bytes${'!'.repeat(10_000)}` }
  for (const classification of [{}, { '4xx': 'retryable', '5xx': 'retryable', '413': 'retryable' }] as const) {
    const outcome = classify(report, classification, now)
    assert.ok(outcome.kind === 'permanent' && outcome.reason === 'too_large')
    assert.match(outcome.error, /^the hub takes 1024 bytes/)
    assert.ok(outcome.error.length < report.message.length)
  }
})

test('a blocked address is permanent and an interrupted try is ours', () => {
  assert.deepEqual(classify({ kind: 'blocked', message: '10.0.0.1 is private' }, { '4xx': 'retryable' }, now), {
    kind: 'permanent',
    reason: 'blocked_address',
    error: '10.0.0.1 is private',
  })
  assert.deepEqual(classify({ kind: 'interrupted', message: 'shutdown' }, {}, now), { kind: 'ours', error: 'shutdown' })
})

test('error texts are one short line without the code said twice', () => {
  const error = (code: string, message: string) => {
    const outcome = classify({ kind: 'unreachable', code, message }, {}, now)
    return 'error' in outcome ? outcome.error : ''
  }
  assert.equal(error('ECONNRESET', ''), 'ECONNRESET')
  assert.equal(error('DEADLINE', 'DEADLINE'), 'DEADLINE')
  assert.equal(error('EPROTO', 'a\n  b\r\n'), 'EPROTO: a b')
  const long = error('EPROTO', `${'x'.repeat(291)}😀${'y'.repeat(1_000)}`)
  assert.equal(long.length, 300)
  assert.ok(long.isWellFormed())
})

test('a refusal can be told with what its answer said, in one short line; nothing else changes', () => {
  const saying = (statusCode: number, body: string) => ({ kind: 'answered', statusCode, headers: {}, body }) as const
  const told = (statusCode: number, body: string) => {
    const outcome = withAnswer(classify(saying(statusCode, body), {}, now), saying(statusCode, body))
    return 'error' in outcome ? outcome.error : outcome.kind
  }
  assert.equal(told(422, 'no such\n customer'), 'HTTP 422: no such customer')
  assert.equal(told(422, ' \n'), 'HTTP 422')
  assert.equal(told(422, 'x'.repeat(1_000)).length, 300)
  assert.equal(told(503, 'later'), 'HTTP 503')
  assert.equal(told(200, 'ok'), 'delivered')
  const blocked = { kind: 'blocked', message: 'closed' } as const
  assert.deepEqual(withAnswer(classify(blocked, {}, now), blocked), classify(blocked, {}, now))
})

test('an override decides: below 500 retryable, from 500 on unavailable, a single code before its class', () => {
  const rows: [number, Classification, Outcome['kind']][] = [
    [409, { '409': 'retryable' }, 'retryable'],
    [409, { '4xx': 'retryable' }, 'retryable'],
    [409, { '4xx': 'retryable', '409': 'permanent' }, 'permanent'],
    [408, { '4xx': 'permanent' }, 'permanent'],
    [425, { '4xx': 'permanent' }, 'permanent'],
    [429, { '4xx': 'permanent' }, 'permanent'],
    [429, { '4xx': 'permanent', '429': 'retryable' }, 'retryable'],
    [500, { '500': 'permanent' }, 'permanent'],
    [501, { '500': 'permanent' }, 'unavailable'],
    [503, { '5xx': 'permanent' }, 'permanent'],
    [503, { '5xx': 'permanent', '503': 'retryable' }, 'unavailable'],
    [302, { '302': 'retryable' }, 'retryable'],
    [302, { '4xx': 'retryable', '5xx': 'retryable' }, 'permanent'],
    [202, { '202': 'retryable' }, 'retryable'],
    [204, { '202': 'retryable', '4xx': 'permanent', '5xx': 'permanent' }, 'delivered'],
    [410, { '410': 'retryable' }, 'retryable'],
  ]
  for (const [status, classification, kind] of rows) {
    assert.equal(outcomeOf(status, classification).kind, kind, `${status} ${JSON.stringify(classification)}`)
  }
})

test('410 says gone unless the endpoint has its own word for it', () => {
  const reason = (classification: Classification) => {
    const outcome = outcomeOf(410, classification)
    return outcome.kind === 'permanent' ? outcome.reason : outcome.kind
  }
  assert.equal(reason({}), 'gone')
  assert.equal(reason({ '4xx': 'permanent' }), 'gone')
  assert.equal(reason({ '4xx': 'retryable' }), 'retryable')
  assert.equal(reason({ '410': 'permanent' }), 'permanent_status')
})

test('Retry-After is read on 429 and 503 only', () => {
  for (const status of range(300, 599)) {
    const outcome = classify(
      answered(status, { 'retry-after': '120' }),
      { '4xx': 'retryable', '302': 'retryable' },
      now,
    )
    if (outcome.kind !== 'retryable' && outcome.kind !== 'unavailable') continue
    assert.equal(outcome.retryAfterMs, status === 429 || status === 503 ? 120_000 : null, String(status))
  }
})

test('Retry-After is seconds or one of the three HTTP dates', () => {
  const rows: [string, number | null][] = [
    ['0', 0],
    ['120', 120_000],
    [' 120 ', 120_000],
    ['86400', retryAfterMsMax],
    ['86401', retryAfterMsMax],
    ['9'.repeat(400), retryAfterMsMax],
    ['Sun, 26 Jul 2026 12:00:30 GMT', 30_000],
    ['Sunday, 26-Jul-26 12:00:30 GMT', 30_000],
    ['Sun Jul 26 12:00:30 2026', 30_000],
    ['Thu, 06 Aug 2026 12:00:30 GMT', retryAfterMsMax],
    ['Mon Jul 27 00:00:00 2026', 43_200_000],
    ['Sat Aug  1 12:00:00 2026', retryAfterMsMax],
    ['Sun, 26 Jul 2026 12:00:60 GMT', 60_000],
    ['Sun, 26 Jul 2026 11:59:59 GMT', 0],
    ['Sun, 06 Nov 1994 08:49:37 GMT', 0],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 0],
    ['Sunday, 06-Nov-77 08:49:37 GMT', 0],
    ['Sunday, 06-Nov-76 08:49:37 GMT', retryAfterMsMax],
    ['', null],
    ['soon', null],
    ['-1', null],
    ['+1', null],
    ['1.5', null],
    ['1e3', null],
    ['0x10', null],
    ['120, 120', null],
    ['2026-07-26T12:00:30Z', null],
    ['Sun, 26 Jul 2026 12:00:30 CEST', null],
    ['Sun, 31 Apr 2027 12:00:30 GMT', null],
    ['Sun, 29 Feb 2027 12:00:30 GMT', null],
    ['Sun, 26 Jly 2026 12:00:30 GMT', null],
    ['Sun, 00 Jul 2026 12:00:30 GMT', null],
    ['Sun, 26 Jul 2026 24:00:30 GMT', null],
    ['Sun, 26 Jul 2026 12:60:30 GMT', null],
    ['Sun, 26 Jul 2026 12:00:61 GMT', null],
  ]
  for (const [value, ms] of rows) assert.equal(parseRetryAfter(value, now), ms, value.slice(0, 40))
})

test("a Retry-After date is read against the response's own clock, or ours when it has none", () => {
  const value = 'Sun, 26 Jul 2026 18:00:30 GMT'
  assert.equal(parseRetryAfter(value, now, 'Sun, 26 Jul 2026 18:00:00 GMT'), 30_000)
  assert.equal(parseRetryAfter(value, now, 'nonsense'), 21_630_000)
  assert.equal(parseRetryAfter('30', now, 'Sun, 26 Jul 2026 18:00:00 GMT'), 30_000)
  const headers = { 'retry-after': value, date: 'Sun Jul 26 18:00:10 2026' }
  assert.deepEqual(classify(answered(503, headers), {}, now), {
    kind: 'unavailable',
    error: 'HTTP 503',
    retryAfterMs: 20_000,
  })
})

test('reads back every instant in all three formats', () => {
  const day = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']
  const longDay = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 86_400 }), fc.integer({ min: 0, max: 40 * 365 }), (seconds, days) => {
      const base = now + days * 86_400_000
      const date = new Date(base + seconds * 1_000)
      const [weekday = '', dd = '', month = '', year = '', time = ''] = date.toUTCString().replace(',', '').split(' ')
      const long = longDay[day.indexOf(weekday)]
      const formats = [
        date.toUTCString(),
        `${long}, ${dd}-${month}-${year.slice(2)} ${time} GMT`,
        `${weekday} ${month} ${dd.replace(/^0/, ' ')} ${time} ${year}`,
      ]
      for (const format of formats) assert.equal(parseRetryAfter(format, base), seconds * 1_000, format)
    }),
  )
})

test('Retry-After is null or within its cap, whatever a peer sends', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.integer(), (value, date, at) => {
      const ms = parseRetryAfter(value, at, date)
      assert.ok(ms === null || (ms >= 0 && ms <= retryAfterMsMax))
    }),
  )
})
