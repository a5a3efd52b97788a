import type { Provider } from '../../core/source.ts'
import { checkGithub, githubSignatures } from './github.ts'
import { checkHmac } from './hmac.ts'
import { checkNone } from './none.ts'
import { checkShopify, shopifySignatures } from './shopify.ts'
import { checkSlack, slackSignatures } from './slack.ts'
import { checkSquare, squareSignatures } from './square.ts'
import { checkStandard, standardSignatures } from './standard.ts'
import { checkStripe, stripeSignatures } from './stripe.ts'
import { checkTwilio, twilioSignatures } from './twilio.ts'
import type { HeadCheck } from './verification.ts'

export type ProviderRules = Readonly<{
  check: HeadCheck
  /** Headers that carry a signature. Who has one and the body can send both again. A source of `hmac` names its own. */
  signatures: readonly string[]
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
  github: { check: checkGithub, signatures: githubSignatures, type: 'github.{x-github-event}', ...byBody },
  stripe: { check: checkStripe, signatures: stripeSignatures, type: 'stripe.{$.type}', ...byBody },
  slack: { check: checkSlack, signatures: slackSignatures, type: 'slack.{$.event.type|$.command|$.type}', ...byBody },
  shopify: {
    check: checkShopify,
    signatures: shopifySignatures,
    type: 'shopify.{x-shopify-topic|shopify-topic}',
    ...byBody,
  },
  twilio: {
    check: checkTwilio,
    signatures: twilioSignatures,
    type: 'twilio.{$.MessageStatus|$.SmsStatus|$.CallStatus|$[0].type}',
    ...byUrl,
  },
  square: { check: checkSquare, signatures: squareSignatures, type: 'square.{$.type}', ...byUrl },
  standard: { check: checkStandard, signatures: standardSignatures, type: '{$.type}', secret: 'made', signsUrl: false },
  hmac: { check: checkHmac, signatures: [], type: null, ...byBody },
  none: { check: checkNone, signatures: [], type: null, secret: 'none', signsUrl: false },
}
