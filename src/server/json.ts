import { Buffer } from 'node:buffer'
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

/** The body of a request as an object. `{}` stands for no body where a body is not needed. */
export function readObject(body: unknown, contentType: string | undefined, needed = true): unknown {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.alloc(0)
  if (bytes.length === 0 && !needed) return {}
  const members = readMembers(bytes, contentType)
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
export function readMembers(bytes: Buffer, contentType: string | undefined): readonly Member[] {
  const refused = mediaTypeProblem(contentType)
  if (refused !== null) throw refused
  const scanned = scanObject(bytes)
  if (scanned.kind === 'problem') throw malformed('The body', scanned)
  return scanned.members
}
