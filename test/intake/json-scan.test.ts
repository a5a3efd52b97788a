import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { nestingMax, repeatedKeyAt, scanArray, scanObject, stringAt, valueAt } from '../../src/intake/json-scan.ts'

describe('scanning an object', () => {
  test('cuts a value out byte for byte', () => {
    const text = ' {"a" : 12345678901234567890 ,"data":{ "z":1.0, "a":1e2 } , "s":"x\\u0041" }\n'
    assert.deepEqual(cut(text), { a: '12345678901234567890', data: '{ "z":1.0, "a":1e2 }', s: '"x\\u0041"' })
  })

  test('cuts out what parses to the same value, for any JSON', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()), fc.nat(3), (object, indent) => {
        const bytes = Buffer.from(JSON.stringify(object, null, indent))
        const scanned = scanObject(bytes)
        assert.equal(scanned.kind, 'object')
        const found = scanned.kind === 'object' ? scanned.members.map((m) => [m.key, valueAt(bytes, m)]) : []
        assert.deepEqual(found, Object.entries(JSON.parse(bytes.toString())))
      }),
    )
  })

  test('never passes what JSON.parse refuses', () => {
    const mutation = fc.tuple(fc.nat(), fc.constantFrom(...'{}[],:"\\0123-+.eEtfnu \n\u0001'), fc.nat(2))
    const object = fc.dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 })
    fc.assert(
      fc.property(object, fc.array(mutation, { minLength: 1, maxLength: 3 }), (value, mutations) => {
        let text = JSON.stringify(value)
        for (const [where, letter, removed] of mutations) {
          const at = where % (text.length + 1)
          text = text.slice(0, at) + letter + text.slice(at + removed)
        }
        const passes = scanObject(Buffer.from(text)).kind === 'object'
        if (passes) assert.equal(typeof JSON.parse(text), 'object')
        else if (parses(text) && isPlain(text)) assert.fail(`refused ${text}`)
      }),
      { numRuns: 3000 },
    )
  })

  for (const text of [
    '{',
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1,',
    '{"a":1,}',
    '{a:1}',
    "{'a':1}",
    '{"a":01}',
    '{"a":1.}',
  ]) {
    test(`refuses ${text}`, () => refuses(text))
  }
  for (const text of [
    '{"a":.5}',
    '{"a":+1}',
    '{"a":-}',
    '{"a":1e}',
    '{"a":NaN}',
    '{"a":tru}',
    '{"a":"\\x"}',
    '{"a":"\\u12"}',
  ]) {
    test(`refuses ${text}`, () => refuses(text))
  }
  for (const text of ['', ' ', '[]', '1', 'null', '{} {}', '{"a":"\n"}', '\ufeff{}', '{"a":1 "b":2}', '{"a":[1 2]}']) {
    test(`refuses ${JSON.stringify(text)}`, () => refuses(text))
  }

  test('says where the problem is, in bytes', () => {
    assert.equal(problemOf('{"ä":x}').position, 6)
    assert.equal(problemOf('{"a":1').position, 6)
  })

  test('refuses a key that comes twice, in whatever spelling, and allows it inside a value', () => {
    assert.match(problemOf('{"a":1,"\\u0061":2}').message, /"a" twice/)
    assert.deepEqual(cut('{"data":{"a":1,"a":2}}'), { data: '{"a":1,"a":2}' })
  })

  test('takes __proto__ for a key like any other', () => {
    const bytes = Buffer.from('{"__proto__":{"x":1}}')
    const scanned = scanObject(bytes)
    assert.deepEqual(scanned.kind === 'object' && scanned.members[0]?.key, '__proto__')
  })

  test('refuses half a surrogate pair anywhere and takes a whole one', () => {
    for (const text of [
      '"\\ud83d"',
      '"\\ude00"',
      '"\\ud83dx"',
      '"\\ud83d\\u0041"',
      '"\\ud83d\\ud83d"',
      '[{"\\udfff":1}]',
    ]) {
      assert.match(problemOf(`{"a":${text}}`).message, /surrogate/)
    }
    assert.deepEqual(cut('{"a":"\\ud83d\\ude00"}'), { a: '"\\ud83d\\ude00"' })
  })

  test('refuses bytes that are not UTF-8 and names the first', () => {
    const bytes = Buffer.concat([Buffer.from('{"\ufffd":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')])
    assert.deepEqual(scanObject(bytes), { kind: 'problem', message: 'is not UTF-8', position: 9 })
    assert.equal(scanObject(Buffer.from([0x7b, 0xed, 0xa0, 0x80])).kind, 'problem')
    assert.equal(scanObject(Buffer.from([0x7b, 0xe2, 0x82])).kind, 'problem')
  })

  test(`refuses more than ${nestingMax} levels and survives a million`, () => {
    const nested = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
    assert.equal(scanObject(Buffer.from(nested(nestingMax))).kind, 'object')
    assert.match(problemOf(nested(nestingMax + 1)).message, /nested/)
    assert.match(problemOf(`{"a":${'['.repeat(1_000_000)}`).message, /nested/)
    assert.match(problemOf('{"a":'.repeat(1_000_000)).message, /nested/)
  })

  test('finds a key that comes twice among a hundred thousand in no time', () => {
    const many = Array.from({ length: 100_000 }, (_, i) => `"${i}":0`).join(',')
    const startedAt = performance.now()
    assert.match(problemOf(`{${many},"7":0}`).message, /twice/)
    assert.ok(performance.now() - startedAt < 2_000)
  })
})

describe('scanning an array', () => {
  test('finds the items byte for byte', () => {
    const bytes = Buffer.from(' [ {"a":1.0} , 2,"x" ]')
    const items = Array.from(scanArray(bytes), ({ start, end }) => bytes.toString('utf8', start, end))
    assert.deepEqual(items, ['{"a":1.0}', '2', '"x"'])
    for (const empty of ['[]', ' [ ] ']) {
      assert.deepEqual(scanArray(Buffer.from(empty)).next(), { value: null, done: true })
    }
  })

  test('refuses everything else', () => {
    for (const text of ['{}', '[', '[1', '[1,', '[1,]', '[,]', '[1]x', '']) {
      const items = scanArray(Buffer.from(text))
      let step = items.next()
      while (!step.done) step = items.next()
      assert.equal(step.value?.kind, 'problem', text)
    }
  })
})

test('reads a string with and without escapes, and nothing else as a string', () => {
  const bytes = Buffer.from('{"a":"pl\\u0061in \\"ü\\"","b":5}')
  const scanned = scanObject(bytes)
  assert.equal(scanned.kind, 'object')
  if (scanned.kind !== 'object') return
  assert.deepEqual(
    scanned.members.map((member) => stringAt(bytes, member)),
    ['plain "ü"', null],
  )
})

function cut(text: string): Record<string, string> {
  const bytes = Buffer.from(text)
  const scanned = scanObject(bytes)
  assert.ok(scanned.kind === 'object', JSON.stringify(scanned))
  return Object.fromEntries(scanned.members.map(({ key, start, end }) => [key, bytes.toString('utf8', start, end)]))
}

function problemOf(text: string): { message: string; position: number } {
  const scanned = scanObject(Buffer.from(text))
  assert.ok(scanned.kind === 'problem', `passed: ${text.slice(0, 100)}`)
  return scanned
}

function refuses(text: string): void {
  problemOf(text)
}

function parses(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** An object without a key twice: what JSON.parse takes and we must, too. */
function isPlain(text: string): boolean {
  const value: unknown = JSON.parse(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  return !/\\u/i.test(text) && !hasTwice(text)
}

function hasTwice(text: string): boolean {
  const scanned = scanObject(Buffer.from(text))
  return scanned.kind === 'problem' && scanned.message.includes('twice')
}

describe('a key that comes twice', () => {
  const found = (text: string) => repeatedKeyAt(Buffer.from(text), { start: 0 })

  test('is found at any depth, and only within one object', () => {
    assert.equal(found('{ "a" : [ {"b":1} , {"b":2, "c":{}, "b" : 3} ], "d":1 }'), 'b')
    assert.equal(found('{"x":{"\\u0061":1,"a":2}}'), 'a')
    for (const text of ['{"a":{"a":[{"a":1},{"a":[]}]}}', '[]', '[ ]', '{ }', '"a"', '1.5e3', '[1,[2,"]"],{}]']) {
      assert.equal(found(text), null, text)
    }
  })

  test('is looked for once per byte, however deep the value is nested', () => {
    const readsOf = (depth: number) => {
      const inner = JSON.stringify(Array.from({ length: 2_000 }, (_, n) => n))
      const bytes = Buffer.from(`${'{"a":'.repeat(depth)}${inner}${'}'.repeat(depth)}`)
      let reads = 0
      const counted = new Proxy(bytes, {
        get(target, name) {
          reads += 1
          const value = Reflect.get(target, name)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
      assert.equal(repeatedKeyAt(counted, { start: 0 }), null)
      return reads
    }
    assert.ok(readsOf(nestingMax - 1) < 2 * readsOf(1), `${readsOf(nestingMax - 1)} reads, and ${readsOf(1)} when flat`)
  })
})
