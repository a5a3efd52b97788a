import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import {
  type Hmac,
  parseSecret,
  type SignedMessage,
  signatureHeader,
  verifySignature,
} from '../../src/core/signature.ts'

const hmac: Hmac = (key, head, body) => createHmac('sha256', key).update(head).update(body).digest('base64')
const bytes = (text: string) => new TextEncoder().encode(text)
const secretOf = (key: Uint8Array) => `whsec_${Buffer.from(key).toString('base64')}`

const keyBytes = fc.uint8Array({ minLength: 24, maxLength: 64 })
const messageId = fc.stringMatching(/^[a-z]{1,4}_[a-z0-9]{1,30}$/)
const body = fc.string({ unit: 'binary' }).map((text) => text.toWellFormed())
const timestampS = 1_785_067_200
const nowMs = timestampS * 1_000

function signed(key: Uint8Array, id: string, text: string): SignedMessage {
  const signature = signatureHeader(hmac, [key], { id, timestampS, body: bytes(text) })
  return { id, timestamp: String(timestampS), signature, body: bytes(text) }
}

test('reproduces the example of the Standard Webhooks specification', () => {
  const key = parseSecret('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
  assert.ok(key !== null)
  const message = { id: 'msg_p5jXN8AQM9LWM0D4loKWxJek', timestampS: 1_614_265_330, body: bytes('{"test": 2432232314}') }
  assert.equal(signatureHeader(hmac, [key], message), 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
})

test('the reference library accepts what we sign', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: nowMs })
  fc.assert(
    fc.property(keyBytes, messageId, body, (key, id, text) => {
      // It parses the payload once it has verified it.
      const payload = JSON.stringify(text)
      const { timestamp, signature } = signed(key, id, payload)
      const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature }
      assert.equal(new Webhook(secretOf(key)).verify(payload, headers), text)
    }),
  )
})

test('we accept what the reference library signs', () => {
  fc.assert(
    fc.property(keyBytes, messageId, body, (key, id, text) => {
      const signature = new Webhook(secretOf(key)).sign(id, new Date(nowMs), text)
      const message = { id, timestamp: String(timestampS), signature, body: bytes(text) }
      assert.equal(verifySignature(hmac, [key], message, nowMs), null)
    }),
  )
})

test('one flipped bit anywhere is refused', () => {
  const flipped = (input: Uint8Array, bit: number) => {
    const copy = Uint8Array.from(input)
    copy[bit >> 3]! ^= 1 << (bit & 7)
    return copy
  }
  const key = bytes('k'.repeat(24))
  const message = signed(key, 'evt_1', '{"amount":100}')
  assert.equal(verifySignature(hmac, [key], message, nowMs), null)
  for (let bit = 0; bit < message.body.length * 8; bit++) {
    assert.notEqual(verifySignature(hmac, [key], { ...message, body: flipped(message.body, bit) }, nowMs), null)
  }
  for (let bit = 0; bit < key.length * 8; bit++) {
    assert.notEqual(verifySignature(hmac, [flipped(key, bit)], message, nowMs), null)
  }
  for (const field of ['id', 'timestamp', 'signature'] as const) {
    const input = bytes(message[field])
    for (let bit = 0; bit < input.length * 8; bit++) {
      const text = Buffer.from(flipped(input, bit)).toString('latin1')
      assert.notEqual(verifySignature(hmac, [key], { ...message, [field]: text }, nowMs), null, `${field} ${bit}`)
    }
  }
})

test('signs with every key, and one good signature of one good key is enough', () => {
  const [oldKey, newKey, otherKey] = [bytes('a'.repeat(24)), bytes('b'.repeat(24)), bytes('c'.repeat(24))]
  const header = signatureHeader(hmac, [newKey, oldKey], { id: 'evt_1', timestampS, body: bytes('x') })
  const [first, second] = header.split(' ')
  assert.equal(header, `${first} ${second}`)
  assert.notEqual(first, second)
  const verify = (keys: Uint8Array[], signature: string) =>
    verifySignature(hmac, keys, { id: 'evt_1', timestamp: String(timestampS), signature, body: bytes('x') }, nowMs)
  assert.equal(verify([oldKey], header), null)
  assert.equal(verify([newKey], header), null)
  assert.equal(verify([otherKey, newKey], header), null)
  assert.equal(verify([newKey, otherKey], header), null)
  assert.equal(verify([newKey], `v1a,abc ${first} v2,x`), null)
  assert.equal(verify([otherKey], header), 'the webhook-signature does not match')
  assert.equal(verify([], header), 'the webhook-signature does not match')
})

test('refuses signatures of another version, shape or length', () => {
  const key = bytes('a'.repeat(24))
  const message = signed(key, 'evt_1', 'x')
  const value = message.signature.slice(3)
  const wrong = [
    '',
    ' ',
    'v1',
    'v1,',
    value,
    `v2,${value}`,
    `v1a,${value}`,
    `V1,${value}`,
    `v1, ${value}`,
    `v1,${value}=`,
  ]
  wrong.push(`v1,${value.slice(0, -1)}`, `v1,${'='.repeat(44)}`, `v1,${value};v1,${value}`)
  for (const signature of wrong) {
    assert.match(verifySignature(hmac, [key], { ...message, signature }, nowMs) ?? '', /signature/, signature)
  }
})

test('refuses a timestamp that is too old, too far ahead, or no plain number of seconds', () => {
  const key = bytes('a'.repeat(24))
  const message = signed(key, 'evt_1', 'x')
  const problemAt = (ms: number, toleranceMs?: number) => verifySignature(hmac, [key], message, ms, toleranceMs)
  assert.equal(problemAt(nowMs + 300_000), null)
  assert.equal(problemAt(nowMs - 300_000), null)
  assert.equal(problemAt(nowMs + 300_001), 'the webhook-timestamp is too old')
  assert.equal(problemAt(nowMs - 300_001), 'the webhook-timestamp is in the future')
  assert.equal(problemAt(nowMs + 1_001, 1_000), 'the webhook-timestamp is too old')
  assert.notEqual(problemAt(Number.NaN), null)

  const texts = ['', ' ', `${timestampS} `, `+${timestampS}`, `-${timestampS}`, `${timestampS}.0`, '1e9', '0x6a', 'NaN']
  texts.push(`${'0'.repeat(12)}${timestampS}`, new Date(nowMs).toISOString())
  for (const timestamp of texts) {
    // Signed over that very text, so that nothing but the shape can be the reason.
    const signature = `v1,${hmac(key, `evt_1.${timestamp}.`, message.body)}`
    const problem = verifySignature(hmac, [key], { ...message, timestamp, signature }, nowMs)
    assert.equal(problem, 'the webhook-timestamp header is not a number of seconds', timestamp)
  }
  assert.equal(verifySignature(hmac, [key], { ...message, id: '' }, nowMs), 'the webhook-id header is missing')
})

test('a secret is whsec_ and canonical base64 of 24 to 64 bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (key) => {
      const expected = key.length >= 24 && key.length <= 64 ? key : null
      assert.deepEqual(parseSecret(secretOf(key)), expected)
    }),
  )
  const good = secretOf(bytes('a'.repeat(25)))
  assert.ok(good.endsWith('=='))
  const wrong = [
    '',
    'whsec_',
    good.slice(6),
    good.slice(0, -1),
    good.slice(0, -2),
    `${good} `,
    good.replace('whsec', 'WHSEC'),
  ]
  wrong.push(
    `${good.slice(0, 20)}\n${good.slice(20)}`,
    `${good.slice(0, -3)}R==`,
    good.replace('Y', '-'),
    `${good}====`,
  )
  wrong.push(`whsec_${'ä'.repeat(40)}`)
  for (const text of wrong) assert.equal(parseSecret(text), null, JSON.stringify(text))
})
