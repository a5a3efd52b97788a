import type { HmacScheme } from '../../core/source.ts'
import { hmac } from '../../hmac.ts'
import { isSigned, missing, timeProblem, type Verify, wrong } from './verification.ts'

/** A signature of somebody's own making, as the source describes it. */
export const verifyHmac: Verify = (source, { headers, body }, now) => {
  const scheme = source.hmac
  if (scheme === null) return wrong
  const { header, prefix, timestampHeader, idHeader } = scheme
  const given = headerIn(headers, header)
  if (given === undefined) return missing(header)
  const event = {
    kind: 'event',
    eventId: (idHeader === null ? undefined : headerIn(headers, idHeader)) ?? null,
  } as const
  const signature = spelled(given, scheme)
  if (timestampHeader === null) {
    return isSigned(source, now, [signature], (secret) => [prefix + hmac(scheme, secret, body)]) ? event : wrong
  }
  const timestamp = headerIn(headers, timestampHeader)
  if (timestamp === undefined) return missing(timestampHeader)
  const problem = timeProblem(timestamp, source, now)
  if (problem !== null) return problem
  const expected = (secret: string) => [prefix + hmac(scheme, secret, `${timestamp}.`, body)]
  return isSigned(source, now, [signature], expected) ? event : wrong
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
