import { Buffer } from 'node:buffer'
import type { IncomingHttpHeaders } from 'node:http'
import { type Member, repeatedKeyAt, type ScanProblem, scanObject, valueAt } from '../intake/json-scan.ts'
import { Problem } from './problem.ts'

/** Why this is not JSON by its content type; none given counts as JSON. */
export function mediaTypeProblem(contentType: string | undefined): Problem | null {
  if (contentType === undefined || contentType === 'application/json') return null
  if (/^application\/(?:[\w.-]+\+)?json *(?:;|$)/i.test(contentType)) return null
  const detail = `The content type is ${JSON.stringify(contentType.slice(0, 100))}; send JSON with content-type: application/json.`
  return new Problem('unsupported_media_type', detail)
}

export function malformed(what: string, { message, position }: ScanProblem): Problem {
  return new Problem('malformed_json', `${what} ${message} (at byte ${position}).`)
}

/** Compressed JSON is not JSON yet: what has to be read here must come as it is. */
export function encodingProblem(headers: IncomingHttpHeaders): Problem | null {
  const encoding = contentEncodingOf(headers)
  if (encoding === null) return null
  const detail = `The body has content-encoding ${JSON.stringify(encoding.slice(0, 100))}; send it without, or as raw bytes to POST /v1/events/{type}.`
  return new Problem('unsupported_media_type', detail)
}

/** null: the bytes are what the content type says. */
export function contentEncodingOf({ 'content-encoding': encoding }: IncomingHttpHeaders): string | null {
  return encoding === undefined || encoding === '' || encoding.toLowerCase() === 'identity' ? null : encoding
}

/** The body of a request as an object. `{}` stands for no body where a body is not needed. */
export function readObject(body: unknown, headers: IncomingHttpHeaders, needed = true): unknown {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0)
  if (bytes.length === 0 && !needed) return {}
  const members = readMembers(bytes, headers)
  return Object.fromEntries(members.map((member) => [member.key, plainValue(bytes, member)]))
}

/** A member's value for us to read, where a key that comes twice would hide what was meant. */
export function plainValue(bytes: Buffer, member: Member): unknown {
  const repeated = repeatedKeyAt(bytes, member)
  if (repeated === null) return valueAt(bytes, member)
  const message = `has the key ${JSON.stringify(repeated)} twice inside ${JSON.stringify(member.key)}`
  throw malformed('The body', { kind: 'problem', message, position: member.start })
}

/** The same, not yet turned into values. */
export function readMembers(bytes: Buffer, headers: IncomingHttpHeaders): readonly Member[] {
  const refused = mediaTypeProblem(headers['content-type']) ?? encodingProblem(headers)
  if (refused !== null) throw refused
  const scanned = scanObject(bytes)
  if (scanned.kind === 'problem') throw malformed('The body', scanned)
  return scanned.members
}
