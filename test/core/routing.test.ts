import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  eventTypeLengthMax,
  eventTypeProblem,
  isOwnType,
  sentTypeProblem,
  typeMatcher,
  typePatternProblem,
} from '../../src/core/routing.ts'

test('accepts the types that people use and refuses the rest with the reason', () => {
  const good = ['a', 'order.created', 'com.example/order:v1.created', 'A-b_c', '1.2.3', 'x'.repeat(eventTypeLengthMax)]
  for (const type of good) assert.equal(eventTypeProblem(type), null, type)
  const bad = ['.', '.a', 'a.', 'a..b', 'a b', 'a*', '*', 'order.*', 'ä', 'a\n', 'a\u0000', 'a,b', '$', '(']
  for (const type of bad)
    assert.match(eventTypeProblem(type) ?? '', /letters, digits and _ : \/ -/, JSON.stringify(type))
  for (const type of ['', 'x'.repeat(eventTypeLengthMax + 1)]) {
    assert.equal(eventTypeProblem(type), 'must have 1 to 256 characters')
  }
})

test('a pattern is a type in which whole segments may be *', () => {
  const good = ['*', '*.*', 'order.*', '*.created', 'a.*.c', 'order.created']
  for (const pattern of good) assert.equal(typePatternProblem(pattern), null, pattern)
  const bad = [
    '',
    'ord*',
    '**',
    'order.**',
    'order.*x',
    '.*',
    '*.',
    'a..*',
    'a b',
    'x'.repeat(257),
    '.+',
    '[a]',
    '(a|b)',
  ]
  for (const pattern of bad) assert.notEqual(typePatternProblem(pattern), null, pattern)
  assert.match(typePatternProblem('ord*') ?? '', /whole segment/)
})

test('matches by segments', () => {
  const rows: [string, string[], string[]][] = [
    ['*', ['a', 'a.b', 'a.b.c'], []],
    ['order.created', ['order.created'], ['order', 'order.created.eu', 'orderxcreated', 'Order.created']],
    ['order.*', ['order.created', 'order.item.added'], ['order', 'orders.created', 'my.order.created']],
    ['*.created', ['order.created', 'user.created'], ['created', 'order.item.created', 'order.created.eu']],
    ['a.*.c', ['a.b.c', 'a.x.c'], ['a.c', 'a.b.b.c', 'a.b.c.d']],
    ['*.*', ['a.b', 'a.b.c'], ['a']],
    ['a.*.*', ['a.b.c', 'a.b.c.d'], ['a.b']],
    ['a/b.*', ['a/b.c'], ['a.b.c']],
  ]
  for (const [pattern, wanted, unwanted] of rows) {
    const matches = typeMatcher([pattern])
    for (const type of wanted) assert.ok(matches(type), `${pattern} wants ${type}`)
    for (const type of unwanted) assert.ok(!matches(type), `${pattern} does not want ${type}`)
  }
})

test('one of several patterns is enough, and no pattern wants nothing', () => {
  const matches = typeMatcher(['order.*', 'invoice.paid', '*.deleted'])
  for (const type of ['order.x', 'invoice.paid', 'user.deleted']) assert.ok(matches(type))
  for (const type of ['invoice.open', 'user.created']) assert.ok(!matches(type))
  assert.ok(!typeMatcher([])('order.created'))
  assert.ok(typeMatcher(['a', '*'])('b'))
})

test('a pattern that was never checked is still only text', () => {
  assert.ok(!typeMatcher(['(a|b)+.*'])('ab.c'))
  assert.ok(typeMatcher(['(a|b)+.*'])('(a|b)+.c'))
})

/** The rule in its slowest and plainest form. */
function wants(pattern: readonly string[], type: readonly string[]): boolean {
  const [head, ...patternRest] = pattern
  const [first, ...typeRest] = type
  if (head === undefined || first === undefined) return head === first
  if (head === '*' && patternRest.length === 0) return true
  return (head === '*' || head === first) && wants(patternRest, typeRest)
}

test('agrees with the plain rule for all patterns and types', () => {
  const word = fc.constantFrom('a', 'b', 'a-b', 'a/b', ':')
  const type = fc.array(word, { minLength: 1, maxLength: 5 })
  const pattern = fc.array(fc.oneof(word, fc.constant('*')), { minLength: 1, maxLength: 5 })
  fc.assert(
    fc.property(fc.array(pattern, { maxLength: 4 }), type, (patterns, parts) => {
      const matches = typeMatcher(patterns.map((each) => each.join('.')))
      assert.equal(
        matches(parts.join('.')),
        patterns.some((each) => wants(each, parts)),
      )
    }),
    { numRuns: 3_000 },
  )
})

test("Posthorn's own notifications go to those alone who name them", () => {
  const rows: [string[], boolean][] = [
    [['*'], false],
    [['*.dead_letters'], false],
    [['*.*'], false],
    [['*', 'order.*'], false],
    [['posthorn.*'], true],
    [['posthorn.dead_letters'], true],
    [['*', 'posthorn.*'], true],
    [['order.*', 'posthorn.breaker.*'], false],
  ]
  for (const [patterns, wanted] of rows) {
    assert.equal(typeMatcher(patterns)('posthorn.dead_letters'), wanted, patterns.join())
  }
  assert.ok(typeMatcher(['*', 'posthorn.*'])('order.created'))
  assert.ok(!typeMatcher(['posthorn.*'])('order.created'))
})

test('nobody may send what looks like a notification', () => {
  assert.match(sentTypeProblem('posthorn.dead_letters') ?? '', /must not begin with posthorn\./)
  assert.match(sentTypeProblem('a b') ?? '', /letters, digits/)
  for (const type of ['posthorn', 'posthorns.x', 'my.posthorn.x', 'order.created']) {
    assert.equal(sentTypeProblem(type), null, type)
    assert.ok(!isOwnType(type))
  }
})
