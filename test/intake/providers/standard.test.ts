import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { Webhook as SvixWebhook } from 'svix'
import { signatureHeader } from '../../../src/core/signature.ts'
import { standardHmac } from '../../../src/hmac.ts'
import { aRequest, aSource, knowsRotation, knowsTheTime, nowS, refusesEveryFlip, verdict, verified } from './scene.ts'

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const source = aSource('standard', { secrets: [{ secret, expiresAt: null }] })
const body = '{"type":"invoice.paid","data":{"id":1,"é":"😀"}}'
const packages = {
  webhook: new Webhook(secret),
  svix: new SvixWebhook(secret),
}
type Name = keyof typeof packages

function signed(name: Name, text: string, seconds = nowS) {
  return aRequest(text, {
    [`${name}-id`]: 'msg_1',
    [`${name}-timestamp`]: String(seconds),
    [`${name}-signature`]: packages[name].sign('msg_1', new Date(seconds * 1_000), text),
  })
}

for (const name of ['webhook', 'svix'] as const) {
  describe(`a Standard Webhook under the names of ${name}`, () => {
    test('is accepted as its package signs it, and known by its id', () => {
      assert.deepEqual(verified(source, signed(name, body)), { kind: 'event', eventId: 'msg_1' })
    })

    test('is signed and verified alike by both, whatever the body', () => {
      fc.assert(
        fc.property(fc.json(), (text) => {
          assert.equal(verdict(source, signed(name, text)), 'event')
          const message = { id: 'msg_1', timestampS: nowS, body: Buffer.from(text) }
          const key = Buffer.alloc(32, 7)
          const ours = signatureHeader(standardHmac, [key], message)
          packages[name].verify(text, { ...signed(name, text).headers, [`${name}-signature`]: ours })
        }),
        { numRuns: 100 },
      )
    })

    test('is refused with any bit changed', () => {
      refusesEveryFlip(source, signed(name, body), [`${name}-id`, `${name}-timestamp`, `${name}-signature`])
    })

    test('counts for five minutes, before and after', () => {
      knowsTheTime(source, (seconds) => signed(name, body, seconds))
    })

    test('is refused when a header is missing', () => {
      const { headers } = signed(name, body)
      for (const missing of ['id', 'timestamp', 'signature']) {
        const rest = Object.entries(headers).filter(([header]) => header !== `${name}-${missing}`)
        assert.equal(verdict(source, aRequest(body, Object.fromEntries(rest))), 'signature_missing')
      }
    })

    test('is accepted with an older secret until that expires', () => {
      knowsRotation(source, signed(name, body))
    })
  })
}
