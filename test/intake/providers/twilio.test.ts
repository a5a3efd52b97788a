import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import twilio from 'twilio'
import { providerRules } from '../../../src/intake/providers/providers.ts'
import { aRequest, aSource, knowsRotation, now, refusesEveryFlip, secret, verdict, verified } from './scene.ts'

const url = 'https://hooks.example/in/main'
const source = aSource('twilio', { url })
const form = { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' }
const fields = { MessageSid: 'SM1', From: '15017122661', Body: 'Hello there', NumMedia: '0' }

type Fields = Readonly<Record<string, string | string[]>>

function encoded(given: Fields): string {
  const pairs = Object.entries(given).flatMap(([name, value]) => [value].flat().map((each) => [name, each]))
  return new URLSearchParams(pairs).toString()
}

function signedForm(given: Fields, target = url, body = encoded(given)) {
  const signature = twilio.getExpectedTwilioSignature(secret, target, { ...given })
  const headers = { ...form, 'x-twilio-signature': signature, 'i-twilio-idempotency-token': 'tok-1' }
  return aRequest(body, headers)
}

function signedJson(body: string, target = url) {
  const query = `bodySHA256=${createHash('sha256').update(body).digest('hex')}`
  const signature = twilio.getExpectedTwilioSignature(secret, `${target}?${query}`, {})
  const headers = { 'content-type': 'application/json', 'x-twilio-signature': signature }
  return aRequest(body, headers, `/in/main?${query}`)
}

describe('a form of Twilio', () => {
  test('is accepted as its package signs it, and known by its idempotency token', () => {
    assert.deepEqual(verified(source, signedForm(fields)), { kind: 'event', eventId: 'tok-1' })
  })

  test('is signed and verified alike by both, whatever the fields', () => {
    const value = fc.string({ unit: 'grapheme' })
    const name = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => text !== '__proto__')
    const several = fc.uniqueArray(value, { minLength: 2, maxLength: 4 })
    fc.assert(
      fc.property(fc.dictionary(name, fc.oneof(value, several), { minKeys: 1 }), (given) => {
        assert.equal(verdict(source, signedForm(given)), 'event')
      }),
    )
  })

  test('is refused with any bit changed', () => {
    refusesEveryFlip(source, signedForm(fields), ['x-twilio-signature'])
  })

  test('with the same field and value twice is what it is with one', () => {
    const request = signedForm({ a: ['1', '1', '0'] })
    assert.equal(verdict(source, request), 'event')
  })

  test('is accepted whether the port was signed or not', () => {
    const { host } = new URL(url)
    for (const signed of [url, `https://${host}:443/in/main`]) {
      for (const named of [url, `https://${host}:443/in/main`, null]) {
        assert.equal(verdict({ ...source, url: named }, signedForm(fields, signed)), 'event', `${signed} ${named}`)
      }
    }
    assert.equal(verdict(source, signedForm(fields, `https://${host}:8443/in/main`)), 'signature_wrong')
    assert.equal(verdict({ ...source, url: `https://${host}:8443/in/main` }, signedForm(fields)), 'event')
  })

  test('is refused when another address was signed', () => {
    assert.equal(verdict(source, signedForm(fields, 'https://other.example/in/main')), 'signature_wrong')
    assert.equal(
      verdict({ ...source, url: null }, signedForm(fields, 'https://other.example/in/main')),
      'signature_wrong',
    )
    const { body, headers } = signedForm(fields)
    assert.equal(verdict(source, aRequest(body, headers, '/in/main?more=1')), 'signature_wrong')
  })

  test('is refused when it is no text or too long to be looked at', () => {
    const { headers } = signedForm(fields)
    assert.equal(verdict(source, aRequest(Buffer.from([0x61, 0x3d, 0xff]), headers)), 'malformed')
    const long = (length: number) => signedForm({ a: 'x'.repeat(length - 'a='.length) })
    assert.equal(verdict(source, long(256 * 1024)), 'event')
    const tooLong = long(256 * 1024 + 1)
    const byHead = providerRules.twilio.check(source, tooLong, now)
    assert.ok(
      typeof byHead !== 'function' && byHead.kind === 'refused',
      'when its length is announced, before it is read',
    )
    const { 'content-length': _, ...unannounced } = tooLong.headers
    assert.equal(verdict(source, { ...tooLong, headers: unannounced }), 'malformed')
  })

  test('is refused when it has more fields than anybody sends, however well it is signed', () => {
    const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, 'x']))
    assert.equal(verdict(source, signedForm(many(1_000))), 'event')
    assert.equal(verdict(source, signedForm(many(1_001))), 'malformed')
  })

  test('is accepted with an older secret until that expires', () => {
    knowsRotation(source, signedForm(fields))
  })
})

describe('JSON of Twilio', () => {
  const body = '[{"specversion":"1.0","type":"com.twilio.messaging.message.delivered","id":"EZ1"}]'

  test('is accepted as its package signs it, and by its package as we do', () => {
    const request = signedJson(body)
    assert.deepEqual(verified(source, request), { kind: 'event', eventId: null })
    const signature = request.headers['x-twilio-signature'] ?? ''
    assert.equal(twilio.validateRequestWithBody(secret, signature, `https://hooks.example${request.url}`, body), true)
  })

  test('is refused with any bit changed', () => {
    refusesEveryFlip(source, signedJson(body), ['x-twilio-signature'])
  })

  test('is refused when nothing that is signed speaks for the body', () => {
    const signature = twilio.getExpectedTwilioSignature(secret, url, {})
    const headers = { 'content-type': 'application/json', 'x-twilio-signature': signature }
    assert.equal(verdict(source, aRequest('', headers)), 'event')
    assert.equal(verdict(source, aRequest('{"forged":true}', headers)), 'malformed')
  })

  test('is refused when the hash in the address is another one', () => {
    const request = signedJson(body)
    const other = createHash('sha256').update('{}').digest('hex')
    assert.equal(verdict(source, aRequest('{}', request.headers, request.url)), 'malformed')
    assert.equal(verdict(source, aRequest('{}', request.headers, `/in/main?bodySHA256=${other}`)), 'signature_wrong')
  })
})

test('a request without a signature of Twilio is refused', () => {
  assert.equal(verdict(source, aRequest(encoded(fields), form)), 'signature_missing')
})
