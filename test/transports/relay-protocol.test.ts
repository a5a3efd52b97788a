import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import {
  type Deliver,
  encode,
  encodeDeliver,
  type FromHub,
  type Hello,
  readDeliver,
  readFromHub,
  readToHub,
  type ToHub,
} from '../../src/transports/relay/protocol.ts'

const count = (min = 0) => fc.integer({ min })
const instant = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER })
function record<T>(model: { [Name in keyof T]: fc.Arbitrary<T[Name]> }): fc.Arbitrary<T> {
  return fc.record(model, { noNullPrototype: true }) as fc.Arbitrary<T>
}
/** Any text at all, halves of surrogate pairs included. */
const text = (maxLength: number) => fc.string({ unit: 'binary', maxLength })
const id = text(64)
/** A name that objects do not take as their own is left out by the reader, which is safe. */
const name = (lengthMax: number) => text(lengthMax).filter((word) => word !== '__proto__')
const headers = fc.dictionary(name(256), text(200), { maxKeys: 5, noNullPrototype: true })
const problem = { code: text(64), message: text(1_024) }

const report = fc.oneof(
  record({
    kind: fc.constant('answered' as const),
    statusCode: fc.integer({ min: 100, max: 999 }),
    headers,
    body: text(2_000),
  }),
  record({ kind: fc.constant('unreachable' as const), ...problem }),
  record({ kind: fc.constant('blocked' as const), message: text(1_024) }),
)

const drain = record({ kind: fc.constant('drain' as const) })
const error = record({ kind: fc.constant('error' as const), ...problem })

const fromHub: Readonly<Record<FromHub['kind'], fc.Arbitrary<FromHub>>> = {
  hello: record({
    kind: fc.constant('hello' as const),
    version: count(1),
    software: text(100),
    session: text(64),
    routes: fc.array(text(64), { maxLength: 20 }),
    credit: record({ frames: count(1), bytes: count(1) }),
    frameBytesMax: count(1),
  }),
  ack: fc
    .tuple(record({ delivery: id, bornAt: instant, report, tookMs: count() }), fc.option(fc.boolean()))
    .map(([ack, remembered]) => ({ kind: 'ack', ...ack, ...(remembered !== null && { remembered }) })),
  returned: record({ kind: fc.constant('returned' as const), deliveries: fc.array(id, { maxLength: 50 }) }),
  drain,
  error,
}

const toHub: Readonly<Record<ToHub['kind'], fc.Arbitrary<ToHub>>> = {
  welcome: record({
    kind: fc.constant('welcome' as const),
    version: count(1),
    software: text(100),
    relay: text(64),
    silenceMsMax: count(1),
  }),
  endpoint: record({
    kind: fc.constant('endpoint' as const),
    endpoint: id,
    route: text(64),
    timeoutMs: count(1),
    classify: fc.dictionary(name(8), fc.constantFrom('permanent' as const, 'retryable' as const), {
      noNullPrototype: true,
    }),
    headers,
    secrets: fc.array(record({ secret: text(256), expiresAt: fc.option(instant) }), { maxLength: 16 }),
  }),
  recall: record({ kind: fc.constant('recall' as const), endpoint: id }),
  drain,
  error,
}

const request = record({ source: text(64), method: text(16), query: text(200), headers })
const head = record({
  kind: fc.constant('deliver' as const),
  delivery: id,
  endpoint: id,
  bornAt: instant,
  attempt: count(1),
  lane: fc.option(text(100)),
  behind: fc.option(id),
  event: record({
    id,
    type: text(256),
    tenant: text(256),
    key: fc.option(text(100)),
    receivedAt: instant,
    contentType: text(100),
    headers,
    request: fc.option(request),
  }),
})
const deliver: fc.Arbitrary<Deliver> = record({ head, body: fc.uint8Array({ maxLength: 2_000 }) })

/** Short ones, to be spoilt at every place. */
const hello: Hello = {
  ...{ kind: 'hello', version: 1, software: 'posthorn/1.0.0', session: 's', routes: ['github', 'ß'] },
  ...{ credit: { frames: 1, bytes: 1 }, frameBytesMax: 1 },
}
const aDeliver: Deliver = {
  head: {
    ...{ kind: 'deliver', delivery: 'dlv_1', endpoint: 'ep_1', bornAt: 1, attempt: 1, lane: '', behind: null },
    event: {
      ...{ id: 'evt_1', type: 'a', tenant: 'default', key: null, receivedAt: 1, contentType: 'text/plain' },
      ...{ headers: { 'x-a': 'ü' }, request: null },
    },
  },
  body: Buffer.from([0, 1, 254, 255]),
}

describe('a message comes out as it went in', () => {
  for (const [kind, message] of Object.entries(fromHub)) {
    test(`${kind} of a hub`, () => {
      fc.assert(fc.property(message, (sent) => assert.deepEqual(readFromHub(encode(sent)), sent)))
    })
  }

  for (const [kind, message] of Object.entries(toHub)) {
    test(`${kind} of an edge`, () => {
      fc.assert(fc.property(message, (sent) => assert.deepEqual(readToHub(encode(sent)), sent)))
    })
  }

  test('deliver, with a body of any bytes', () => {
    fc.assert(
      fc.property(deliver, (sent) => {
        const read = readDeliver(encodeDeliver(sent))
        assert.ok('head' in read)
        assert.deepEqual(read.head, sent.head)
        assert.ok(Buffer.from(sent.body).equals(read.body))
      }),
    )
  })

  test('deliver that is a part of a larger buffer', () => {
    const frame = encodeDeliver(aDeliver)
    const larger = Buffer.concat([Buffer.from('before'), frame, Buffer.from('after')])
    const read = readDeliver(larger.subarray(6, 6 + frame.length))
    assert.ok('head' in read)
    assert.deepEqual([read.head, [...read.body]], [aDeliver.head, [...aDeliver.body]])
  })
})

describe('what a newer version says is passed over', () => {
  const known = new Set([...Object.keys(fromHub), ...Object.keys(toHub)])
  const newKind = fc.string().filter((kind) => !known.has(kind))

  test('kinds that are not known', () => {
    fc.assert(
      fc.property(newKind, fc.dictionary(fc.string(), fc.jsonValue()), (kind, fields) => {
        const data = JSON.stringify({ ...fields, kind })
        assert.deepEqual(readFromHub(data), { kind: 'unknown', name: kind })
        assert.deepEqual(readToHub(data), { kind: 'unknown', name: kind })
      }),
    )
  })

  test('fields that are not known, also inside', () => {
    const fields = fc.dictionary(
      fc.string().map((name) => `new-${name}`),
      fc.jsonValue(),
    )
    const messages = fc.oneof(...Object.values(fromHub))
    fc.assert(
      fc.property(messages, fields, (sent, more) => {
        const newer =
          'report' in sent ? { ...sent, ...more, report: { ...sent.report, ...more } } : { ...sent, ...more }
        assert.deepEqual(readFromHub(JSON.stringify(newer)), sent)
      }),
    )
    fc.assert(
      fc.property(deliver, fields, ({ head, body }, more) => {
        const newer = { head: { ...head, ...more, event: { ...head.event, ...more } }, body }
        const read = readDeliver(encodeDeliver(newer))
        assert.ok('head' in read)
        assert.deepEqual(read.head, head)
      }),
    )
  })
})

describe('what cannot be understood is said to be malformed, and nothing throws', () => {
  const isSane = (read: { kind: string } | Deliver) => {
    if ('head' in read) assert.equal(read.head.kind, 'deliver')
    else assert.ok(read.kind in fromHub || read.kind in toHub || ['unknown', 'malformed'].includes(read.kind))
  }

  test('every truncation and every flipped bit of a binary frame', () => {
    const frame = encodeDeliver(aDeliver)
    const bodyAt = frame.length - aDeliver.body.length
    for (let length = 0; length < frame.length; length += 1) {
      const read = readDeliver(frame.subarray(0, length))
      assert.equal('head' in read, length >= bodyAt, `${length} bytes`)
    }
    for (const flipped of flips(frame)) isSane(readDeliver(flipped))
  })

  test('every truncation and every flipped bit of a text', () => {
    const sent = Buffer.from(encode(hello))
    for (let length = 0; length < sent.length; length += 1) {
      assert.equal(readFromHub(sent.subarray(0, length).toString()).kind, 'malformed')
    }
    for (const flipped of flips(sent)) isSane(readFromHub(flipped.toString()))
  })

  test('any bytes, any text, any JSON', () => {
    const bytes = fc.uint8Array({ maxLength: 500 })
    fc.assert(fc.property(bytes, (any) => isSane(readDeliver(Buffer.from(any)))))
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (any) => {
        isSane(readFromHub(any))
        isSane(readToHub(any))
      }),
    )
    for (const data of ['', 'null', '[]', '0', '"drain"', '{}', '{"kind":1}', '{"kind":null}', '['.repeat(200_000)]) {
      assert.deepEqual([readFromHub(data).kind, readToHub(data).kind], ['malformed', 'malformed'], data.slice(0, 20))
    }
  })

  test('a head that says to be longer than it is, or another kind', () => {
    const frame = encodeDeliver(aDeliver)
    frame.writeUInt32BE(0xffffffff, 0)
    assert.deepEqual(readDeliver(frame), { kind: 'malformed', problem: 'the head is longer than its frame' })
    const other = { ...aDeliver.head, kind: 'other' } as unknown as Deliver['head']
    assert.ok(!('head' in readDeliver(encodeDeliver({ head: other, body: aDeliver.body }))))
  })

  test('a known kind with a field that is missing or too large, with the name of the field', () => {
    const ack = { kind: 'ack', delivery: 'dlv_1', bornAt: 1, tookMs: 1, report: { kind: 'blocked', message: '' } }
    const answered = { kind: 'answered', statusCode: 200, headers: {}, body: '' }
    const wrong: readonly (readonly [message: object, path: RegExp])[] = [
      [{ ...ack, delivery: 'd'.repeat(65) }, /^delivery: /],
      [{ ...ack, bornAt: '1' }, /^bornAt: /],
      [{ ...ack, tookMs: -1 }, /^tookMs: /],
      [{ ...ack, report: undefined }, /^report/],
      [{ ...ack, report: { ...answered, statusCode: 99 } }, /^report\.statusCode: /],
      [{ ...ack, report: { ...answered, statusCode: 1_000 } }, /^report\.statusCode: /],
      [{ ...ack, report: { ...answered, body: 'b'.repeat(65_537) } }, /^report\.body: /],
      [{ ...ack, report: { ...answered, headers: { a: 'b'.repeat(16_385) } } }, /^report\.headers\.a: /],
      [{ ...ack, report: { kind: 'unreachable', code: 'c'.repeat(65), message: '' } }, /^report\.code: /],
      [{ ...ack, report: { kind: 'blocked', message: 'm'.repeat(1_025) } }, /^report\.message: /],
      [{ kind: 'returned', deliveries: Array(10_001).fill('dlv_1') }, /^deliveries: /],
      [{ ...hello, routes: Array(1_001).fill('a') }, /^routes: /],
      [{ ...hello, version: 0 }, /^version: /],
      [{ ...hello, version: 1.5 }, /^version: /],
      [{ ...hello, credit: { frames: 0, bytes: 1 } }, /^credit\.frames: /],
      [{ ...hello, frameBytesMax: 0 }, /^frameBytesMax: /],
      [{ kind: 'error', code: 'x' }, /^message: /],
    ]
    for (const [message, path] of wrong) {
      const read = readFromHub(JSON.stringify(message))
      assert.ok(read.kind === 'malformed', JSON.stringify(read))
      assert.match(read.problem, path)
    }
  })

  test('a report that a hub has no right to make', () => {
    const ack = { kind: 'ack', delivery: 'dlv_1', bornAt: 1, tookMs: 1 }
    for (const kind of ['interrupted', 'handled', 'thrown', 'oversized', 'whatever']) {
      const read = readFromHub(JSON.stringify({ ...ack, report: { kind, message: '' } }))
      assert.ok(read.kind === 'malformed', JSON.stringify(read))
      assert.match(read.problem, /^report\.kind: /)
    }
  })
})

/** The bytes with one bit flipped, for each of them. */
function* flips(bytes: Buffer): Generator<Buffer> {
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const flipped = Buffer.from(bytes)
    flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    yield flipped
  }
}
