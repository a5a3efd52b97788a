import { hmac } from '../../hmac.ts'
import { textField } from '../inbound-request.ts'
import { isSigned, missing, signedUrls, type Verify, wrong } from './verification.ts'

const scheme = { algorithm: 'sha256', encoding: 'base64' } as const

/** `x-square-hmacsha256-signature: <base64>` over the notification URL followed by the body. */
export const verifySquare: Verify = (source, request, now) => {
  const given = request.headers['x-square-hmacsha256-signature']
  if (given === undefined) return missing('x-square-hmacsha256-signature')
  const urls = signedUrls(source, request)
  const expected = (secret: string) => urls.map((url) => hmac(scheme, secret, url, request.body))
  if (!isSigned(source, now, [given], expected)) return wrong
  return { kind: 'event', eventId: textField(request, 'event_id') }
}
