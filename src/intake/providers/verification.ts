import { Buffer } from 'node:buffer'
import { timingSafeEqual } from 'node:crypto'
import type { HmacScheme, Source } from '../../core/source.ts'
import type { InboundHead, InboundRequest } from '../inbound-request.ts'

/** What a provider's request turned out to be. */
export type Verification =
  /** `eventId` is the provider's own, the same on every repeat; null when it has none. */
  Readonly<{ kind: 'event'; eventId: string | null }> | Handshake | Refusal

/** A question of the provider that is answered at once and makes no event. */
export type Handshake = Readonly<{ kind: 'handshake'; status: number; contentType: string; body: string }>

export type RefusalCode = 'signature_missing' | 'signature_wrong' | 'timestamp_stale' | 'malformed'
export type Refusal = Readonly<{ kind: 'refused'; code: RefusalCode; message: string }>

/** What the body decides, once it is there. */
export type BodyCheck = (request: InboundRequest) => Verification

/**
 * Refuses what cannot be good by its head alone, before anything of the body is read. `now` is the wall clock: what it is
 * compared with was written by somebody else's.
 */
export type HeadCheck = (source: Source, head: InboundHead, now: number) => Refusal | BodyCheck

export function missing(header: string): Refusal {
  return { kind: 'refused', code: 'signature_missing', message: `The request has no ${header} header.` }
}

export function malformed(message: string): Refusal {
  return { kind: 'refused', code: 'malformed', message }
}

export const wrong: Refusal = {
  kind: 'refused',
  code: 'signature_wrong',
  message: 'The signature fits no secret of this source.',
}

/** Why a signed time in seconds is not to be trusted; null when it is. */
export function timeProblem(text: string, { toleranceMs }: Source, now: number): Refusal | null {
  if (!/^\d{1,12}$/.test(text)) return malformed('The timestamp is not a number of seconds.')
  const distanceMs = Math.abs(now - Number(text) * 1_000)
  // Written so that a clock that is no number refuses.
  if (distanceMs <= toleranceMs) return null
  return { kind: 'refused', code: 'timestamp_stale', message: 'The timestamp is too far from the time of this server.' }
}

const digestBytes = { sha1: 20, sha256: 32, sha512: 64 } as const

/** Whether a text can be a signature of this scheme at all: what cannot costs no hash, and no body is read for it. */
export function isSpelled(text: string, { algorithm, encoding }: Pick<HmacScheme, 'algorithm' | 'encoding'>): boolean {
  const bytes = digestBytes[algorithm]
  if (encoding === 'hex') return text.length === bytes * 2 && /^[0-9a-f]+$/.test(text)
  return text.length === Math.ceil(bytes / 3) * 4 && /^[A-Za-z0-9+/]+={0,2}$/.test(text)
}

/** The secrets that have not expired. */
export function liveSecrets({ secrets }: Source, now: number): readonly string[] {
  return secrets.filter(({ expiresAt }) => expiresAt === null || expiresAt > now).map(({ secret }) => secret)
}

/**
 * Whether one of the given signatures is that of one of the source's secrets. All of them are compared, each in
 * constant time, so that the time it takes tells nothing of how near a guess was.
 */
export function isSigned(
  source: Source,
  now: number,
  given: readonly string[],
  expected: (secret: string) => readonly string[],
): boolean {
  let isGood = false
  for (const secret of liveSecrets(source, now)) {
    for (const signature of expected(secret)) {
      for (const candidate of given) isGood = isSame(candidate, signature) || isGood
    }
  }
  return isGood
}

/** As text: two spellings of the same bytes are not the same signature. */
export function isSame(given: string, expected: string): boolean {
  // Lengths are no secret, and headers may be full of candidates.
  if (given.length !== expected.length) return false
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** The addresses that the provider may have signed: the one that the source knows, else as the request names it. */
export function signedUrls({ url }: Source, request: InboundHead): readonly string[] {
  if (url !== null) return [request.query === '' ? url : `${url.split('?', 1)[0]}?${request.query}`]
  const host = request.headers.host ?? ''
  // Whoever ends TLS in front of us does not always say so.
  return [`https://${host}${request.url}`, `http://${host}${request.url}`]
}
