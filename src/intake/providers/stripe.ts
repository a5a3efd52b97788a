import { hmac } from '../../hmac.ts'
import { textField } from '../inbound-request.ts'
import { type HeadCheck, isSigned, isSpelled, malformed, missing, timeProblem, wrong } from './verification.ts'

const scheme = { algorithm: 'sha256', encoding: 'hex' } as const
export const stripeSignatures = ['stripe-signature']

/**
 * `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=<hex>]` over `<seconds>.<body>`. The key is the whole secret as text,
 * `whsec_` included.
 */
export const checkStripe: HeadCheck = (source, { headers }, now) => {
  const header = headers['stripe-signature']
  if (header === undefined) return missing('stripe-signature')
  const values = (name: string) =>
    header
      .split(',')
      .filter((item) => item.startsWith(`${name}=`))
      .map((item) => item.slice(name.length + 1))
  const [timestamp, ...others] = values('t')
  const v1 = values('v1')
  if (timestamp === undefined || others.length > 0 || v1.length === 0) {
    return malformed('The stripe-signature header needs one t and a v1.')
  }
  const problem = timeProblem(timestamp, source, now)
  if (problem !== null) return problem
  const given = v1.filter((signature) => isSpelled(signature, scheme))
  if (given.length === 0) return wrong
  return (request) => {
    if (!isSigned(source, now, given, (secret) => [hmac(scheme, secret, `${timestamp}.`, request.body)])) return wrong
    return { kind: 'event', eventId: textField(request, 'id') }
  }
}
