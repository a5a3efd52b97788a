import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import Stripe from 'stripe'
import { hmac } from '../../../src/hmac.ts'
import {
  aRequest,
  aSource,
  knowsRotation,
  knowsTheTime,
  now,
  nowS,
  refusesEveryFlip,
  verdict,
  verified,
} from './scene.ts'

const secret = 'whsec_c2VjcmV0LW9mLXN0cmlwZQ=='
const source = aSource('stripe', { secrets: [{ secret, expiresAt: null }] })
const { webhooks } = new Stripe('sk_test_of_nobody')
const body = '{"id":"evt_1NG8Du2eZvKYlo2C","object":"event","type":"invoice.paid","amount":12345678901234567890}'

function signed(payload: string, timestamp = nowS) {
  return aRequest(payload, { 'stripe-signature': webhooks.generateTestHeaderString({ payload, secret, timestamp }) })
}

const withHeader = (header: string) => aRequest(body, { 'stripe-signature': header })

describe('a webhook of Stripe', () => {
  test('is accepted as the stripe package signs it, and known by the id of the event', () => {
    assert.deepEqual(verified(source, signed(body)), { kind: 'event', eventId: 'evt_1NG8Du2eZvKYlo2C' })
  })

  test('is signed and verified alike by both, whatever the body', () => {
    fc.assert(
      fc.property(fc.json(), (payload) => {
        assert.equal(verdict(source, signed(payload)), 'event')
        const ours = hmac({ algorithm: 'sha256', encoding: 'hex' }, secret, `${nowS}.`, Buffer.from(payload))
        webhooks.constructEvent(payload, `t=${nowS},v1=${ours}`, secret)
      }),
      { numRuns: 100 },
    )
  })

  test('is refused with any bit changed', () => {
    refusesEveryFlip(source, signed(body), ['stripe-signature'])
  })

  test('counts for five minutes, before and after', () => {
    knowsTheTime(source, (seconds) => signed(body, seconds))
  })

  test('is accepted when any of its signatures is good', () => {
    const good = hmac({ algorithm: 'sha256', encoding: 'hex' }, secret, `${nowS}.`, body)
    const bad = 'f'.repeat(64)
    assert.equal(verdict(source, withHeader(`t=${nowS},v1=${bad},v1=${good},v0=${bad}`)), 'event')
    assert.equal(verdict(source, withHeader(`t=${nowS},v1=${bad},v0=${good}`)), 'signature_wrong')
  })

  test('is refused when its header cannot be read', () => {
    assert.equal(verdict(source, aRequest(body, {})), 'signature_missing')
    const good = hmac({ algorithm: 'sha256', encoding: 'hex' }, secret, `${nowS}.`, body)
    for (const header of ['', 'x', `t=${nowS}`, `v1=${good}`, `t=${nowS},t=1,v1=${good}`, `t=soon,v1=${good}`]) {
      assert.equal(verdict(source, withHeader(header)), 'malformed', header)
    }
    assert.equal(verdict(source, withHeader(`t=${nowS}abc,v1=${good}`)), 'malformed')
  })

  test('is accepted with an older secret until that expires', () => {
    knowsRotation(source, signed(body))
  })

  test('that is no JSON is an event without an id', () => {
    assert.deepEqual(verified(source, signed('not json')), { kind: 'event', eventId: null })
    assert.deepEqual(verified(source, signed('{"id":7}'), now), { kind: 'event', eventId: null })
  })
})
