import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { headerProblem, isHeaderText } from '../../src/core/headers.ts'

test('lets ordinary headers through', () => {
  const ordinary = {
    'X-Team': 'a',
    authorization: 'Bearer x.y=',
    traceparent: '00-ab-cd-01',
    'x-empty': '',
    cookie: 'é',
  }
  for (const [name, value] of Object.entries(ordinary)) assert.equal(headerProblem(name, value), null)
})

test('keeps for itself what frames a request and what receivers trust', () => {
  const reserved = ['host', 'Content-Length', 'transfer-encoding', 'CONNECTION', 'expect', 'upgrade', 'te', 'trailer']
  const more = [
    'keep-alive',
    'proxy-authorization',
    'Proxy-Connection',
    'webhook-id',
    'Webhook-Signature',
    'posthorn-x',
  ]
  for (const name of [...reserved, ...more]) assert.match(headerProblem(name, 'x') ?? '', /set by Posthorn/)
})

test('refuses names and values that could break out of their line', () => {
  for (const name of ['', 'a b', 'a:', 'a\r\nb', 'ä', 'a\0', 'x'.repeat(129)])
    assert.notEqual(headerProblem(name, 'x'), null)
  for (const value of ['a\r\nb: c', 'a\n', '\0', '\x7f', 'ł', '😀', 'x'.repeat(4_097)]) {
    assert.notEqual(headerProblem('x-a', value), null)
  }
})

test('names the header and never repeats its value', () => {
  const problem = headerProblem('x-token', 'secret\n')
  assert.ok(problem?.includes('x-token') === true && !problem.includes('secret'))
})

test('what passes as text is what fits on one line in latin-1', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const fits = [...text].every((char) => {
        const code = char.codePointAt(0) ?? 0
        return code === 9 || (code >= 32 && code <= 255 && code !== 127)
      })
      assert.equal(isHeaderText(text), fits)
    }),
  )
})
