import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { WebhooksHelper as SquareWebhooks } from 'square'
import { hmac } from '../../../src/hmac.ts'
import { aRequest, aSource, knowsRotation, refusesEveryFlip, secret, verdict, verified } from './scene.ts'

const url = 'https://hooks.example/in/main'
const source = aSource('square', { url })
const body = '{"merchant_id":"6SSW7HV8K2ST5","type":"payment.created","event_id":"6a8f5f28-54a1","é":"😀"}'

function signed(text: string, notificationUrl = url) {
  const signature = hmac({ algorithm: 'sha256', encoding: 'base64' }, secret, notificationUrl, Buffer.from(text))
  return aRequest(text, { 'x-square-hmacsha256-signature': signature })
}

/** The package only verifies: what it accepts of a request tells how Square signs. */
function squareAccepts({ body: bytes, headers }: ReturnType<typeof signed>): Promise<boolean> {
  const signatureHeader = headers['x-square-hmacsha256-signature'] ?? ''
  return SquareWebhooks.verifySignature({
    requestBody: bytes.toString(),
    signatureHeader,
    signatureKey: secret,
    notificationUrl: url,
  })
}

describe('a webhook of Square', () => {
  test('is accepted when its package accepts it, and known by the id of the event', async () => {
    assert.equal(await squareAccepts(signed(body)), true)
    assert.deepEqual(verified(source, signed(body)), { kind: 'event', eventId: '6a8f5f28-54a1' })
  })

  test('is verified alike by both, whatever the body and the signature', async () => {
    const text = fc.string({ unit: 'grapheme' })
    await fc.assert(
      fc.asyncProperty(text, text, async (sent, received) => {
        const request = aRequest(received, signed(sent).headers)
        assert.equal(verdict(source, request) === 'event', await squareAccepts(request))
        assert.equal(verdict(source, signed(sent)), 'event')
      }),
      { numRuns: 50 },
    )
  })

  test('is refused with any bit changed', () => {
    refusesEveryFlip(source, signed(body), ['x-square-hmacsha256-signature'])
  })

  test('is signed for the address that the source names, else for the one of the request', () => {
    const elsewhere = signed(body, 'https://other.example/in/main')
    assert.equal(verdict(source, elsewhere), 'signature_wrong')
    assert.equal(verdict({ ...source, url: 'https://other.example/in/main' }, elsewhere), 'event')
    const unnamed = { ...source, url: null }
    assert.equal(verdict(unnamed, signed(body)), 'event')
    assert.equal(verdict(unnamed, signed(body, 'http://hooks.example/in/main')), 'event')
    assert.equal(verdict(unnamed, elsewhere), 'signature_wrong')
  })

  test('is refused without a signature', () => {
    assert.equal(verdict(source, aRequest(body, {})), 'signature_missing')
  })

  test('is accepted with an older secret until that expires', () => {
    knowsRotation(source, signed(body))
  })
})
