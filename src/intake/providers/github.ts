import { hmac } from '../../hmac.ts'
import { type HeadCheck, isSigned, isSpelled, missing, wrong } from './verification.ts'

const scheme = { algorithm: 'sha256', encoding: 'hex' } as const
const prefix = 'sha256='
const header = 'x-hub-signature-256'
/** The older header is the same body under the same secret, by SHA-1. It is not looked at. */
export const githubSignatures = [header, 'x-hub-signature']

/** `X-Hub-Signature-256: sha256=<hex>` over the body. */
export const checkGithub: HeadCheck = (source, { headers }, now) => {
  const given = headers[header]
  if (given === undefined) return missing(header)
  if (!given.startsWith(prefix) || !isSpelled(given.slice(prefix.length), scheme)) return wrong
  return ({ body }) => {
    if (!isSigned(source, now, [given], (secret) => [prefix + hmac(scheme, secret, body)])) return wrong
    return { kind: 'event', eventId: headers['x-github-delivery'] ?? null }
  }
}
