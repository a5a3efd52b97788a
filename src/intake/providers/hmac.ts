import type { HmacScheme } from '../../core/source.ts'
import { hmac } from '../../hmac.ts'
import { type HeadCheck, isSigned, isSpelled, missing, timeProblem, wrong } from './verification.ts'

/** A signature of somebody's own making, as the source describes it. */
export const checkHmac: HeadCheck = (source, { headers }, now) => {
  const scheme = source.hmac
  if (scheme === null) return wrong
  const { header, prefix, timestampHeader, idHeader } = scheme
  const given = headerIn(headers, header)
  if (given === undefined) return missing(header)
  const signature = spelled(given, scheme)
  if (!signature.startsWith(prefix) || !isSpelled(signature.slice(prefix.length), scheme)) return wrong
  const timestamp = timestampHeader === null ? null : (headerIn(headers, timestampHeader) ?? '')
  if (timestampHeader !== null && timestamp === '') return missing(timestampHeader)
  const problem = timestamp === null ? null : timeProblem(timestamp, source, now)
  if (problem !== null) return problem
  const before = timestamp === null ? '' : `${timestamp}.`
  return ({ body }) => {
    if (!isSigned(source, now, [signature], (secret) => [prefix + hmac(scheme, secret, before, body)])) return wrong
    return { kind: 'event', eventId: (idHeader === null ? undefined : headerIn(headers, idHeader)) ?? null }
  }
}

/** Some write hex in capitals throughout. */
function spelled(given: string, { prefix, encoding }: HmacScheme): string {
  const digits = given.slice(prefix.length)
  return encoding === 'hex' && /^[0-9A-F]+$/.test(digits) ? given.slice(0, prefix.length) + digits.toLowerCase() : given
}

/** A header of this name, and not what every object has by it. */
function headerIn(headers: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(headers, name) ? headers[name] : undefined
}
