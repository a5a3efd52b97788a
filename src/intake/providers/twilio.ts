import { isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import { hmac } from '../../hmac.ts'
import { formPairs, type InboundRequest, isForm } from '../inbound-request.ts'
import { isSame, isSigned, malformed, missing, signedUrls, type Verify, wrong } from './verification.ts'

const scheme = { algorithm: 'sha1', encoding: 'base64' } as const
const bodyHashName = 'bodySHA256'
/** A form is taken apart before its signature is known to be good, so it must not be long. */
const formBytesMax = 256 * 1024

/**
 * `X-Twilio-Signature: <base64>` over the full URL, followed by the names and values of a form in the order of the
 * names. Other bodies are not signed themselves: their SHA-256 is in the URL, which is.
 */
export const verifyTwilio: Verify = (source, request, now) => {
  const given = request.headers['x-twilio-signature']
  if (given === undefined) return missing('x-twilio-signature')
  const fields = signedFields(request)
  if (fields === null) return malformed('The body is covered neither by the signature nor by a bodySHA256 in the URL.')
  const urls = [...new Set(signedUrls(source, request).flatMap(portVariants))]
  const expected = (secret: string) => urls.map((url) => hmac(scheme, secret, url, fields))
  if (!isSigned(source, now, [given], expected)) return wrong
  return { kind: 'event', eventId: request.headers['i-twilio-idempotency-token'] ?? null }
}

/** What is signed after the URL; null when nothing signed would speak for the body. */
function signedFields({ query, headers, body }: InboundRequest): string | null {
  const bodyHash = new URLSearchParams(query).get(bodyHashName)
  if (bodyHash !== null) return isSame(bodyHash, hash('sha256', body, 'hex')) ? '' : null
  if (body.length === 0) return ''
  if (!isForm(headers) || body.length > formBytesMax || !isUtf8(body)) return null
  const values = new Map<string, Set<string>>()
  for (const [name, value] of formPairs(body)) values.set(name, (values.get(name) ?? new Set()).add(value))
  return [...values.keys()]
    .sort()
    .map((name) => named(name, values.get(name) ?? new Set()))
    .join('')
}

function named(name: string, values: ReadonlySet<string>): string {
  return [...values]
    .sort()
    .map((value) => name + value)
    .join('')
}

/** Twilio signs some URLs with the standard port and some without. */
function portVariants(url: string): readonly string[] {
  const [, scheme = '', user = '', host = '', , rest = ''] =
    /^(https?:\/\/)([^/?#@]*@)?(\[[^\]]*\]|[^/?#:]*)(:\d*)?(.*)$/i.exec(url) ?? []
  if (scheme === '') return [url]
  const standardPort = scheme.toLowerCase() === 'https://' ? ':443' : ':80'
  return [url, `${scheme}${user}${host}${rest}`, `${scheme}${user}${host}${standardPort}${rest}`]
}
