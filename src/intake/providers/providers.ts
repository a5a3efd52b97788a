import type { Provider } from '../../core/source.ts'
import { verifyGithub } from './github.ts'
import { verifyHmac } from './hmac.ts'
import { verifyNone } from './none.ts'
import { verifyShopify } from './shopify.ts'
import { verifySlack } from './slack.ts'
import { verifySquare } from './square.ts'
import { verifyStandard } from './standard.ts'
import { verifyStripe } from './stripe.ts'
import { verifyTwilio } from './twilio.ts'
import type { Verify } from './verification.ts'

export type ProviderRules = Readonly<{
  verify: Verify
  /** The type of its events unless the source says otherwise; null: the source's name. */
  type: string | null
  /** Whether a source must be given a secret, gets one made up, or has none. */
  secret: 'given' | 'made' | 'none'
  /** Whether it signs the address that it calls. */
  signsUrl: boolean
}>

const byBody = { secret: 'given', signsUrl: false } as const
const byUrl = { secret: 'given', signsUrl: true } as const

export const providerRules: Readonly<Record<Provider, ProviderRules>> = {
  github: { verify: verifyGithub, type: 'github.{x-github-event}', ...byBody },
  stripe: { verify: verifyStripe, type: 'stripe.{$.type}', ...byBody },
  slack: { verify: verifySlack, type: 'slack.{$.event.type|$.command|$.type}', ...byBody },
  shopify: { verify: verifyShopify, type: 'shopify.{x-shopify-topic|shopify-topic}', ...byBody },
  twilio: { verify: verifyTwilio, type: 'twilio.{$.MessageStatus|$.SmsStatus|$.CallStatus|$[0].type}', ...byUrl },
  square: { verify: verifySquare, type: 'square.{$.type}', ...byUrl },
  standard: { verify: verifyStandard, type: '{$.type}', secret: 'made', signsUrl: false },
  hmac: { verify: verifyHmac, type: null, ...byBody },
  none: { verify: verifyNone, type: null, secret: 'none', signsUrl: false },
}
