import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import '@shopify/shopify-api/adapters/node'
import { ApiVersion, LogSeverity, shopifyApi } from '@shopify/shopify-api'
import { createSHA256HMAC, HashFormat } from '@shopify/shopify-api/runtime'
import fc from 'fast-check'
import { hmac } from '../../../src/hmac.ts'
import { aRequest, aSource, knowsRotation, refusesEveryFlip, secret, verdict, verified } from './scene.ts'

const source = aSource('shopify')
const shopify = shopifyApi({
  apiKey: 'key',
  apiSecretKey: secret,
  apiVersion: ApiVersion.July25,
  hostName: 'hooks.example',
  isEmbeddedApp: false,
  logger: { level: LogSeverity.Error },
})
const body = '{"id":820982911946154508,"email":"jon@doe.ca","total_price":"254.98","é":"😀"}'

async function signed(text: string, prefix: 'x-shopify' | 'shopify' = 'x-shopify') {
  const headers = {
    [`${prefix}-hmac-sha256`]: await createSHA256HMAC(secret, text, HashFormat.Base64),
    [`${prefix}-topic`]: 'orders/create',
    [`${prefix}-shop-domain`]: 'a.myshopify.com',
    [`${prefix}-api-version`]: '2025-07',
    [`${prefix}-webhook-id`]: 'w-1',
    [`${prefix}-event-id`]: 'e-1',
  }
  return aRequest(text, headers)
}

async function shopifyAccepts({ body: bytes, headers }: Awaited<ReturnType<typeof signed>>): Promise<boolean> {
  const rawRequest = { method: 'POST', url: '/in/main', headers, socket: {} } as never
  return (await shopify.webhooks.validate({ rawBody: bytes.toString(), rawRequest })).valid
}

describe('a webhook of Shopify', () => {
  test('is accepted as its package signs it, and known by the id of the webhook', async () => {
    assert.deepEqual(verified(source, await signed(body)), { kind: 'event', eventId: 'w-1' })
    assert.deepEqual(verified(source, await signed(body, 'shopify')), { kind: 'event', eventId: 'w-1' })
  })

  test('is signed and verified alike by both, whatever the body', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string({ minLength: 1, unit: 'grapheme' }),
        fc.constantFrom('shopify', 'x-shopify'),
        async (text, prefix) => {
          const request = await signed(text, prefix)
          assert.equal(verdict(source, request), 'event')
          const ours = hmac({ algorithm: 'sha256', encoding: 'base64' }, secret, Buffer.from(text))
          const withOurs = aRequest(text, { ...request.headers, [`${prefix}-hmac-sha256`]: ours })
          assert.equal(await shopifyAccepts(withOurs), true)
        },
      ),
      { numRuns: 50 },
    )
  })

  test('is refused with any bit changed', async () => {
    refusesEveryFlip(source, await signed(body), ['x-shopify-hmac-sha256'])
  })

  test('is refused without a signature', () => {
    assert.equal(verdict(source, aRequest(body, {})), 'signature_missing')
    assert.equal(verdict(source, aRequest(body, { 'x-shopify-hmac-sha256': '' })), 'signature_wrong')
  })

  test('is accepted with an older secret until that expires', async () => {
    knowsRotation(source, await signed(body))
  })
})
