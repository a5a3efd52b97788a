import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { eventTypeProblem } from '../../src/core/routing.ts'
import { keyFrom, parseTemplate, templateProblem, typeFrom, typeTemplateProblem } from '../../src/core/type-template.ts'

const headers = { 'x-github-event': 'pull_request', 'x-shopify-topic': 'orders/create', 'x-odd': 'a b..ö!' }
const body = { type: 'invoice.paid', action: 'opened', items: [{ id: 7 }], deep: { flag: true }, list: [1], 'a-b': 'c' }
const facts = { headers, fields: () => body }
const typeOf = (template: string, given = facts) => typeFrom(parseTemplate(template), given, 'main')
const keyOf = (template: string, given = facts) => keyFrom(parseTemplate(template), given)

describe('the type of an event', () => {
  test('is made of text, headers and places in the body', () => {
    const expected: Record<string, string> = {
      'plain.word': 'plain.word',
      'github.{x-github-event}': 'github.pull_request',
      'github.{X-GitHub-Event}.{$.action}': 'github.pull_request.opened',
      'shopify.{x-shopify-topic}': 'shopify.orders/create',
      '{$.type}': 'invoice.paid',
      'a.{$.items[0].id}.{$.deep.flag}.{$.a-b}': 'a.7.true.c',
    }
    for (const [template, type] of Object.entries(expected)) assert.equal(typeOf(template), type)
  })

  test('says unknown where a value is missing, unless the template says that it may be', () => {
    assert.equal(typeOf('slack.{$.event.type}'), 'slack.unknown')
    assert.equal(typeOf('github.{x-github-event}.{$.none?}'), 'github.pull_request')
    assert.equal(typeOf('a.{$.list}.{$.deep}'), 'a.unknown.unknown')
    assert.equal(typeOf('{$.none?}'), 'main')
    assert.equal(typeOf('{$.type}', { headers, fields: () => undefined as never }), 'unknown')
  })

  test('takes the first of several places that has something', () => {
    assert.equal(typeOf('a.{x-none|$.list|$.action|$.type}'), 'a.opened')
    assert.equal(typeOf('a.{x-none|$.none}'), 'a.unknown')
    assert.equal(typeOf('a.{x-none|$.none?}'), 'a')
  })

  test("never looks like one of Posthorn's own notifications, whatever a request says", () => {
    const forged = { headers: { 'x-type': 'posthorn.dead_letters' }, fields: () => ({ a: 'posthorn' }) }
    assert.equal(typeOf('{x-type}', forged as never), '_posthorn.dead_letters')
    assert.equal(typeOf('{$.a}.breaker', forged as never), '_posthorn.breaker')
    assert.match(typeTemplateProblem('posthorn.{x-type}') ?? '', /must not begin with posthorn\./)
  })

  test('is cleaned where a value is not fit for it', () => {
    assert.equal(typeOf('x.{x-odd}'), 'x.a_b.__')
  })

  test('looks only at what the sender wrote', () => {
    for (const path of ['__proto__', 'constructor', 'toString', 'constructor.name']) {
      assert.equal(typeOf(`a.{$.${path}}`), 'a.unknown')
    }
    assert.equal(typeOf('a.{constructor}'), 'a.unknown')
  })

  test('is one, whatever a request brings', () => {
    const templates = ['{a}', 'x.{a}', '{a?}', '{$.b}', 'x.{a}.{$.b?}.y', '{a}{$.b}'].map(parseTemplate)
    const value = fc.oneof(fc.string(), fc.string({ unit: 'binary', maxLength: 600 }), fc.jsonValue())
    fc.assert(
      fc.property(fc.constantFrom(...templates), fc.string(), value, fc.string(), (template, a, b, fallback) => {
        const type = typeFrom(template, { headers: { a }, fields: () => ({ b }) }, fallback)
        assert.equal(eventTypeProblem(type), null, type)
      }),
    )
  })
})

describe('the key of an event', () => {
  test('is made in the same way, of any characters', () => {
    assert.equal(keyOf('{x-odd}/{$.items[0].id}'), 'a b..ö!/7')
  })

  test('is none when something that it needs is missing', () => {
    assert.equal(keyOf('a-{$.none}'), null)
    assert.equal(keyOf('{$.none?}'), null)
    assert.equal(keyOf('a-{$.none?}'), 'a-')
  })
})

describe('a template', () => {
  test('that cannot be read is refused with what is wrong', () => {
    const wrong: Record<string, RegExp> = {
      '': /1 to 256/,
      [`${'x'.repeat(257)}`]: /1 to 256/,
      'a.{b': /without its }/,
      'a.b}': /without its {/,
      'a.{}': /neither a header/,
      'a.{b|}': /neither a header/,
      'a.{b c}': /neither a header/,
      'a.{$}': /neither a header/,
      'a.{$.}': /neither a header/,
      'a.{$.b[x]}': /neither a header/,
      'a.{b{c}}': /neither a header/,
      [`${'{a}'.repeat(17)}`]: /at most 16 parts/,
    }
    for (const [template, why] of Object.entries(wrong)) assert.match(templateProblem(template) ?? '', why, template)
    assert.throws(() => parseTemplate('a.{b'), /without its/)
  })

  test('of types must be fit for a type in its own words', () => {
    assert.equal(typeTemplateProblem('github.{x-github-event}.{$.action?}'), null)
    assert.match(typeTemplateProblem('two words') ?? '', /must be letters/)
    assert.match(typeTemplateProblem('a..{b}') ?? '', /must be letters/)
    assert.match(typeTemplateProblem('{b') ?? '', /without its }/)
    assert.equal(templateProblem('two words {b}'), null)
  })
})
