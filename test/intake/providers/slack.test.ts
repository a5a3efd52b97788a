import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isValidSlackRequest } from '@slack/bolt/dist/receivers/verify-request.js'
import fc from 'fast-check'
import { hmac } from '../../../src/hmac.ts'
import {
  aRequest,
  aSource,
  knowsRotation,
  knowsTheTime,
  nowS,
  refusesEveryFlip,
  secret,
  verdict,
  verified,
} from './scene.ts'

const source = aSource('slack')
const body = '{"type":"event_callback","event_id":"Ev08MFMKH6","event":{"type":"app_mention","text":"hé"}}'
const form = { 'content-type': 'application/x-www-form-urlencoded' }

function signed(text: string, seconds = nowS, headers: Record<string, string> = {}) {
  const signature = hmac({ algorithm: 'sha256', encoding: 'hex' }, secret, `v0:${seconds}:`, text)
  const signing = { 'x-slack-signature': `v0=${signature}`, 'x-slack-request-timestamp': String(seconds) }
  return aRequest(text, { ...signing, ...headers })
}

/** Bolt only verifies: what it accepts of a request tells how Slack signs. */
function boltAccepts({ body: bytes, headers }: ReturnType<typeof signed>): boolean {
  const signing = {
    'x-slack-signature': headers['x-slack-signature'] ?? '',
    'x-slack-request-timestamp': Number(headers['x-slack-request-timestamp']),
  }
  return isValidSlackRequest({ signingSecret: secret, body: bytes.toString(), headers: signing })
}

describe('a webhook of Slack', () => {
  test('is accepted when Bolt accepts it, and known by the id of the event', () => {
    assert.equal(boltAccepts(signed(body)), true)
    assert.deepEqual(verified(source, signed(body)), { kind: 'event', eventId: 'Ev08MFMKH6' })
  })

  test('is verified alike by both, whatever the body and the signature', () => {
    const text = fc.string({ unit: 'grapheme' })
    fc.assert(
      fc.property(text, text, (sent, received) => {
        const { headers } = signed(sent)
        const request = aRequest(received, headers)
        assert.equal(verdict(source, request) === 'event', boltAccepts(request))
        assert.equal(verdict(source, signed(sent)), 'event')
      }),
    )
  })

  test('is refused with any bit changed', () => {
    refusesEveryFlip(source, signed(body), ['x-slack-signature', 'x-slack-request-timestamp'])
  })

  test('counts for five minutes, before and after', () => {
    knowsTheTime(source, (seconds) => signed(body, seconds))
  })

  test('is refused without its two headers', () => {
    const { headers } = signed(body)
    const signature = headers['x-slack-signature'] ?? ''
    assert.equal(verdict(source, aRequest(body, {})), 'signature_missing')
    assert.equal(verdict(source, aRequest(body, { 'x-slack-signature': signature })), 'signature_missing')
  })

  test('is accepted with an older secret until that expires', () => {
    knowsRotation(source, signed(body))
  })
})

describe('a question of Slack', () => {
  const question = (challenge: unknown) => JSON.stringify({ token: 'x', type: 'url_verification', challenge })

  test('about the address is answered with its challenge, if it is signed', () => {
    const asked = signed(question('3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P'))
    assert.deepEqual(verified(source, asked), {
      kind: 'handshake',
      status: 200,
      contentType: 'text/plain',
      body: '3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P',
    })
    assert.equal(verdict(source, aRequest(question('abc'), {})), 'signature_missing')
  })

  test('with a challenge that is no plain word is refused', () => {
    for (const challenge of ['', 'two words', 'é', 'x'.repeat(257), 'a\nb', 7, null, { a: 1 }]) {
      assert.equal(verdict(source, signed(question(challenge))), 'malformed', JSON.stringify(challenge))
    }
  })

  test('about the certificate is answered and makes no event', () => {
    const asked = aRequest('ssl_check=1&token=x', form)
    assert.deepEqual(verified(source, asked), { kind: 'handshake', status: 200, contentType: 'text/plain', body: '' })
    assert.equal(verdict(source, aRequest('ssl_check=0', form)), 'signature_missing')
    assert.equal(verdict(source, aRequest(`ssl_check=1&x=${'y'.repeat(2_000)}`, form)), 'signature_missing')
  })
})

test('a command of Slack is an event without an id', () => {
  const command = signed('command=%2Fweather&text=94070', nowS, form)
  assert.deepEqual(verified(source, command), { kind: 'event', eventId: null })
})
