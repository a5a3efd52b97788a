import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { foldError, foldedLengthMax, foldingOnce } from '../../src/core/error-groups.ts'

const table: readonly (readonly [error: string, folded: string])[] = [
  ['HTTP 503', 'HTTP 503'],
  ['HTTP 503 after 17 ms', 'HTTP 503 after <n> ms'],
  ['connect ECONNREFUSED 10.0.0.7:443', 'connect ECONNREFUSED <address>'],
  ['connect ECONNREFUSED ::1:9000', 'connect ECONNREFUSED <address>'],
  ['connect ETIMEDOUT [2001:db8::7]:443', 'connect ETIMEDOUT <address>'],
  ['getaddrinfo ENOTFOUND shop.example', 'getaddrinfo ENOTFOUND <host>'],
  ['getaddrinfo ENOTFOUND some-service', 'getaddrinfo ENOTFOUND <host>'],
  ['proxy.eu-1.shop.example said no', '<host> said no'],
  ['connect ECONNREFUSED localhost:4800', 'connect ECONNREFUSED <host>'],
  ['No answer within 15000 ms', 'No answer within <n> ms'],
  ['order 4711 of customer 99 is unknown', 'order <n> of customer <n> is unknown'],
  ['event evt_0c1r5d4kq007m8q2w3e4r5t failed', 'event <id> failed'],
  ['job 3f2504e0-4f89-11d3-9a0c-0305e82c3301 failed', 'job <id> failed'],
  ['commit 9fceb02 not found', 'commit <id> not found'],
  ['no customer cus_NffrFeUfNV2Hib', 'no customer <id>'],
  ['bad pointer 0x7ffe', 'bad pointer <id>'],
  ['duplicate key "order-42" in "orders"', 'duplicate key <text> in <text>'],
  ["Unexpected token 'x' in JSON", 'Unexpected token <text> in JSON'],
  ["can't connect, won't retry", "can't connect, won't retry"],
  ['POST https://shop.example/hooks?id=7 was refused', 'POST <url> was refused'],
  ['late since 2026-01-01T00:00:00.123Z', 'late since <time>'],
  ['took 1,234.5 s', 'took <n> s'],
  ['two\n  lines', 'two lines'],
  ['TypeError: order.items.map is not a function', 'TypeError: order.items.map is not a function'],
  ['', ''],
]

test('numbers, ids, addresses, hosts, quoted text and addresses of pages are folded', () => {
  assert.deepEqual(
    table.map(([error]) => [error, foldError(error)]),
    table,
  )
})

test('errors that differ only in what is folded are one group', () => {
  const folded = Array.from({ length: 100 }, (_, i) =>
    foldError(`connect ECONNREFUSED 10.0.${i}.7:${9_000 + i} (${i})`),
  )
  assert.equal(new Set(folded).size, 1)
})

const words = fc.constantFrom(
  ...[
    'HTTP',
    '503',
    '10.0.0.7:443',
    '::1',
    'shop.example',
    'localhost:80',
    '"a"',
    "'",
    'evt_0c1r5d4kq007',
    'deadbeef7',
  ],
  ...['https://a.b/c?d=1', '<n>', '<id', '1.5', '-', ':', '.', '[', ']', ' ', '\n', 'x', '0x1f', '2026-01-01T00:00'],
)
const errors = fc.oneof(
  fc.string({ maxLength: 600, unit: 'binary' }),
  fc.array(words, { maxLength: 120 }).map((parts) => parts.join('')),
  fc.array(words, { maxLength: 120 }).map((parts) => parts.join(' ')),
)

test('folding what is folded changes nothing', () => {
  fc.assert(
    fc.property(errors, (error) => {
      assert.equal(foldError(foldError(error)), foldError(error))
    }),
    { numRuns: 2_000 },
  )
})

test('a folded error is short, however long the error is', () => {
  fc.assert(
    fc.property(errors, fc.integer({ min: 1, max: 500 }), (error, times) => {
      assert.ok(foldError(error.repeat(times)).length <= foldedLengthMax)
    }),
  )
})

test('a folded error has no digits but those of a status', () => {
  fc.assert(
    fc.property(errors, (error) => {
      assert.doesNotMatch(foldError(error).replace(/\bHTTP \d+/g, ''), /[0-9]/)
    }),
  )
})

/** Texts that are alike but for their digits, which is where a memory of shapes can go wrong. */
const variants = fc
  .tuple(errors, fc.array(fc.integer({ min: 0, max: 1_000_000 }), { minLength: 1, maxLength: 6 }))
  .map(([error, numbers]) => numbers.map((n, turn) => error.replace(/\d+/g, (run) => String(n + turn * run.length))))
const statuses = fc
  .array(fc.integer({ min: 100, max: 599 }), { maxLength: 8 })
  .map((codes) => codes.flatMap((code) => [`HTTP ${code}`, `http ${code}`, `HTTP ${code} after ${code} ms`]))
const near = fc
  .array(fc.stringMatching(/^[0-9x:.a-f -]{0,14}$/), { maxLength: 12 })
  .map((texts) => texts.flatMap((text) => [text, `HTTP ${text}`, `connect ${text}`]))

test('errors that are folded one after another fold as each does alone', () => {
  fc.assert(
    fc.property(fc.oneof(variants, statuses, near), (texts) => {
      const fold = foldingOnce(1_000)
      for (const text of texts) assert.equal(fold(text), foldError(text))
    }),
    { numRuns: 3_000 },
  )
})

test('400, 404, 422 and 401 stay four errors, and 0x is told from 1x', () => {
  const fold = foldingOnce(1_000)
  const texts = ['HTTP 400', 'HTTP 404', 'HTTP 422', 'HTTP 401', 'at 1x7f', 'at 0x7f', 'to a:8', 'to a:80']
  assert.deepEqual(texts.map(fold), texts.map(foldError))
  assert.equal(new Set(texts.map(fold)).size, 8)
})
