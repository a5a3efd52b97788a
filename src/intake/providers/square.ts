import { hmac } from '../../hmac.ts'
import { textField } from '../inbound-request.ts'
import { type HeadCheck, isSigned, isSpelled, missing, signedUrls, wrong } from './verification.ts'

const scheme = { algorithm: 'sha256', encoding: 'base64' } as const
const header = 'x-square-hmacsha256-signature'
/** The older header is the same by SHA-1. It is not looked at. */
export const squareSignatures = [header, 'x-square-signature']

/** `x-square-hmacsha256-signature: <base64>` over the notification URL followed by the body. */
export const checkSquare: HeadCheck = (source, head, now) => {
  const given = head.headers[header]
  if (given === undefined) return missing(header)
  if (!isSpelled(given, scheme)) return wrong
  return (request) => {
    const urls = signedUrls(source, request)
    const expected = (secret: string) => urls.map((url) => hmac(scheme, secret, url, request.body))
    if (!isSigned(source, now, [given], expected)) return wrong
    return { kind: 'event', eventId: textField(request, 'event_id') }
  }
}
