import { Buffer, isUtf8 } from 'node:buffer'
import { hash } from 'node:crypto'
import { hmac } from '../../hmac.ts'
import { formPairs, type InboundHead, type InboundRequest, isForm } from '../inbound-request.ts'
import {
  type HeadCheck,
  isSame,
  isSigned,
  isSpelled,
  malformed,
  missing,
  signedUrls,
  type Verification,
  wrong,
} from './verification.ts'

const scheme = { algorithm: 'sha1', encoding: 'base64' } as const
const header = 'x-twilio-signature'
export const twilioSignatures = [header]
const bodyHashName = 'bodySHA256'
/** A form is taken apart before its signature is known to be good, so it must not be long. */
const formBytesMax = 256 * 1024
const uncovered = malformed('The body is covered neither by the signature nor by a bodySHA256 in the URL.')

/**
 * `X-Twilio-Signature: <base64>` over the full URL, followed by the names and values of a form in the order of the
 * names. Other bodies are not signed themselves: their SHA-256 is in the URL, which is.
 */
export const checkTwilio: HeadCheck = (source, head, now) => {
  const { headers, query } = head
  const given = headers[header]
  if (given === undefined) return missing(header)
  if (!isSpelled(given, scheme)) return wrong
  const urls = [...new Set(signedUrls(source, head).flatMap(portVariants))]
  const isGood = (fields: Uint8Array) =>
    isSigned(source, now, [given], (secret) => urls.map((url) => hmac(scheme, secret, url, fields)))
  const event = { kind: 'event', eventId: headers['i-twilio-idempotency-token'] ?? null } as const
  const bodyHash = new URLSearchParams(query).get(bodyHashName)
  if (bodyHash === null) {
    const bytesMax = isForm(headers) ? formBytesMax : 0
    if (Number(headers['content-length'] ?? 0) > bytesMax) return uncovered
    return (request) => formVerdict(request, isGood, event)
  }
  // All that is signed is in the head.
  if (!isGood(Buffer.alloc(0))) return wrong
  return ({ body }) => (isSame(bodyHash, hash('sha256', body, 'hex')) ? event : uncovered)
}

function formVerdict(
  request: InboundRequest,
  isGood: (fields: Uint8Array) => boolean,
  event: Verification,
): Verification {
  const fields = signedFields(request)
  if (fields === null) return uncovered
  return isGood(Buffer.from(fields)) ? event : wrong
}

/** What is signed after the URL; null when nothing signed would speak for the body. */
function signedFields({ headers, body }: Pick<InboundRequest, 'body'> & InboundHead): string | null {
  if (body.length === 0) return ''
  if (!isForm(headers) || body.length > formBytesMax || !isUtf8(body)) return null
  const pairs = formPairs(body)
  if (pairs === null) return null
  const values = new Map<string, Set<string>>()
  for (const [name, value] of pairs) values.set(name, (values.get(name) ?? new Set()).add(value))
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
