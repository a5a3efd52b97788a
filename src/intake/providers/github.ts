import { hmac } from '../../hmac.ts'
import { isSigned, missing, type Verify, wrong } from './verification.ts'

const scheme = { algorithm: 'sha256', encoding: 'hex' } as const
const prefix = 'sha256='

/** `X-Hub-Signature-256: sha256=<hex>` over the body. The older SHA-1 header is not looked at. */
export const verifyGithub: Verify = (source, { headers, body }, now) => {
  const given = headers['x-hub-signature-256']
  if (given === undefined) return missing('x-hub-signature-256')
  if (!isSigned(source, now, [given], (secret) => [prefix + hmac(scheme, secret, body)])) return wrong
  return { kind: 'event', eventId: headers['x-github-delivery'] ?? null }
}
