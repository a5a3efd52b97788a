import { hmac } from '../../hmac.ts'
import { type InboundHead, isForm, textField } from '../inbound-request.ts'
import { challengeAnswer, emptyAnswer } from './handshake.ts'
import { type BodyCheck, type HeadCheck, isSigned, isSpelled, missing, timeProblem, wrong } from './verification.ts'

const scheme = { algorithm: 'sha256', encoding: 'hex' } as const
const prefix = 'v0='
const header = 'x-slack-signature'
export const slackSignatures = [header]
const timestampHeader = 'x-slack-request-timestamp'
const checkBytesMax = 1_024

/** `X-Slack-Signature: v0=<hex>` over `v0:<seconds>:<body>`. */
export const checkSlack: HeadCheck = (source, head, now) => {
  const { headers } = head
  const given = headers[header]
  const timestamp = headers[timestampHeader]
  if (given === undefined) return isShortForm(head) ? certificateCheck : missing(header)
  if (timestamp === undefined) return missing(timestampHeader)
  const problem = timeProblem(timestamp, source, now)
  if (problem !== null) return problem
  if (!given.startsWith(prefix) || !isSpelled(given.slice(prefix.length), scheme)) return wrong
  return (request) => {
    const expected = (secret: string) => [prefix + hmac(scheme, secret, `v0:${timestamp}:`, request.body)]
    if (!isSigned(source, now, [given], expected)) return wrong
    if (textField(request, 'type') === 'url_verification') return challengeAnswer(textField(request, 'challenge') ?? '')
    return { kind: 'event', eventId: textField(request, 'event_id') }
  }
}

/** Slack looks now and then whether the certificate is good, and does not sign that; nothing comes of it. */
const certificateCheck: BodyCheck = (request) =>
  textField(request, 'ssl_check') === '1' ? emptyAnswer : missing(header)

/** Node reads no more of a body than was announced. */
function isShortForm({ headers }: InboundHead): boolean {
  return isForm(headers) && Number(headers['content-length'] ?? Number.NaN) <= checkBytesMax
}
