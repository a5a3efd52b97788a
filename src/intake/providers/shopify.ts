import { hmac } from '../../hmac.ts'
import { type HeadCheck, isSigned, isSpelled, missing, wrong } from './verification.ts'

const scheme = { algorithm: 'sha256', encoding: 'base64' } as const
export const shopifySignatures = ['x-shopify-hmac-sha256', 'shopify-hmac-sha256']

/**
 * `X-Shopify-Hmac-Sha256: <base64>` over the body; newer webhooks name it without the X. A repeat has the same `X-Shopify-Webhook-Id`; the event id is
 * shared by webhooks of several topics, so it would take one for another.
 */
export const checkShopify: HeadCheck = (source, { headers }, now) => {
  const prefix = headers['shopify-hmac-sha256'] === undefined ? 'x-shopify' : 'shopify'
  const given = headers[`${prefix}-hmac-sha256`]
  if (given === undefined) return missing('x-shopify-hmac-sha256')
  if (!isSpelled(given, scheme)) return wrong
  return ({ body }) => {
    if (!isSigned(source, now, [given], (secret) => [hmac(scheme, secret, body)])) return wrong
    return { kind: 'event', eventId: headers[`${prefix}-webhook-id`] ?? null }
  }
}
