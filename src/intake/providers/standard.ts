import { parseSecret, v1Signatures, verifySignature } from '../../core/signature.ts'
import { standardHmac } from '../../hmac.ts'
import { type HeadCheck, liveSecrets, missing, timeProblem, wrong } from './verification.ts'

export const standardSignatures = ['webhook-signature', 'svix-signature']

/** Standard Webhooks; Svix sends the same under names of its own. */
export const checkStandard: HeadCheck = (source, { headers }, now) => {
  const prefix =
    headers['webhook-signature'] === undefined && headers['svix-signature'] !== undefined ? 'svix' : 'webhook'
  const id = headers[`${prefix}-id`] ?? ''
  const timestamp = headers[`${prefix}-timestamp`] ?? ''
  const signature = headers[`${prefix}-signature`] ?? ''
  if (signature === '') return missing('webhook-signature')
  if (id === '') return missing('webhook-id')
  if (timestamp === '') return missing('webhook-timestamp')
  const problem = timeProblem(timestamp, source, now)
  if (problem !== null) return problem
  if (v1Signatures(signature).length === 0) return wrong
  return ({ body }) => {
    const keys = liveSecrets(source, now).flatMap((secret) => parseSecret(secret) ?? [])
    const message = { id, timestamp, signature, body }
    return verifySignature(standardHmac, keys, message, now, source.toleranceMs) === null
      ? { kind: 'event', eventId: id }
      : wrong
  }
}
