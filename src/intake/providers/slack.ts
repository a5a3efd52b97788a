import { hmac } from '../../hmac.ts'
import { isForm, textField } from '../inbound-request.ts'
import { challengeAnswer, emptyAnswer } from './handshake.ts'
import { isSigned, missing, timeProblem, type Verify, wrong } from './verification.ts'

const scheme = { algorithm: 'sha256', encoding: 'hex' } as const
const checkBytesMax = 1_024

/** `X-Slack-Signature: v0=<hex>` over `v0:<seconds>:<body>`. */
export const verifySlack: Verify = (source, request, now) => {
  const { headers, body } = request
  // Slack looks now and then whether the certificate is good, and does not sign that; nothing comes of it.
  const isShortForm = isForm(headers) && body.length <= checkBytesMax
  if (isShortForm && textField(request, 'ssl_check') === '1') return emptyAnswer
  const given = headers['x-slack-signature']
  const timestamp = headers['x-slack-request-timestamp']
  if (given === undefined) return missing('x-slack-signature')
  if (timestamp === undefined) return missing('x-slack-request-timestamp')
  const problem = timeProblem(timestamp, source, now)
  if (problem !== null) return problem
  const expected = (secret: string) => [`v0=${hmac(scheme, secret, `v0:${timestamp}:`, body)}`]
  if (!isSigned(source, now, [given], expected)) return wrong
  if (textField(request, 'type') === 'url_verification') return challengeAnswer(textField(request, 'challenge') ?? '')
  return { kind: 'event', eventId: textField(request, 'event_id') }
}
