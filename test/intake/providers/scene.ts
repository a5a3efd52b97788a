// A source and requests to it, and what every provider must refuse.
import assert from 'node:assert/strict'
import type { Provider, Source } from '../../../src/core/source.ts'
import { type InboundRequest, inboundHead, inboundRequest } from '../../../src/intake/inbound-request.ts'
import { providerRules } from '../../../src/intake/providers/providers.ts'
import type { Verification } from '../../../src/intake/providers/verification.ts'

/** The packages of the providers ask the real clock, so this one is near it. */
export const now = Date.now()
export const nowS = Math.floor(now / 1_000)
export const secret = 'a-secret-of-two-sides'

export function aSource(provider: Provider, given: Partial<Source> = {}): Source {
  return {
    id: 'src_1',
    name: 'main',
    tenant: 'default',
    provider,
    description: '',
    type: 'any',
    key: null,
    secrets: [{ secret, expiresAt: null }],
    toleranceMs: 300_000,
    bodyBytesMax: 1_048_576,
    contentTypes: null,
    url: null,
    hmac: null,
    createdAt: now,
    updatedAt: now,
    ...given,
  }
}

type Headers = Readonly<Record<string, string>>

export function aRequest(body: string | Buffer, headers: Headers, url = '/in/main'): InboundRequest {
  const bytes = Buffer.from(body)
  const all = { host: 'hooks.example', ...headers, 'content-length': String(bytes.length) }
  return inboundRequest(inboundHead({ method: 'POST', url, headers: all }), bytes)
}

export function verified(source: Source, request: InboundRequest, at = now): Verification {
  const check = providerRules[source.provider].check(source, request, at)
  return typeof check === 'function' ? check(request) : check
}

/** What became of it, in a word. */
export function verdict(source: Source, request: InboundRequest, at = now): string {
  const result = verified(source, request, at)
  return result.kind === 'refused' ? result.code : result.kind
}

/** Turns every single bit of the body and of the named headers, one after the other; none of it may be accepted. */
export function refusesEveryFlip(source: Source, request: InboundRequest, signedHeaders: readonly string[]): void {
  assert.equal(verdict(source, request), 'event')
  for (let bit = 0; bit < request.body.length * 8; bit++) {
    const flipped = aRequest(flip(request.body, bit), request.headers, request.url)
    assert.equal(verified(source, flipped).kind, 'refused', `bit ${bit} of the body`)
  }
  for (const name of signedHeaders) {
    const value = Buffer.from(request.headers[name] ?? '', 'latin1')
    assert.ok(value.length > 0, name)
    for (let bit = 0; bit < value.length * 8; bit++) {
      const headers = { ...request.headers, [name]: flip(value, bit).toString('latin1') }
      const flipped = aRequest(request.body, headers, request.url)
      assert.equal(verified(source, flipped).kind, 'refused', `bit ${bit} of ${name}`)
    }
  }
}

/** A signature counts with the newest and with an older secret, and no longer when that one has expired. */
export function knowsRotation(source: Source, request: InboundRequest): void {
  const [signing] = source.secrets
  assert.ok(signing !== undefined)
  const other = { secret: signing.secret.replace(/.{8}$/, 'AAAAAAA='), expiresAt: null }
  const during = { ...source, secrets: [other, { ...signing, expiresAt: now + 1 }] }
  assert.equal(verdict(during, request), 'event')
  assert.equal(verdict({ ...source, secrets: [other, { ...signing, expiresAt: now }] }, request), 'signature_wrong')
  assert.equal(verdict({ ...source, secrets: [other] }, request), 'signature_wrong')
  assert.equal(verdict({ ...source, secrets: [] }, request), 'signature_wrong')
}

/** A signed time counts for five minutes to both sides, to the second. */
export function knowsTheTime(source: Source, requestAt: (seconds: number) => InboundRequest): void {
  const atS = nowS * 1_000
  for (const distanceS of [0, 299, 300, -299, -300]) {
    assert.equal(verdict(source, requestAt(nowS - distanceS), atS), 'event', String(distanceS))
  }
  for (const distanceS of [301, 3_600, -301, -3_600]) {
    assert.equal(verdict(source, requestAt(nowS - distanceS), atS), 'timestamp_stale', String(distanceS))
  }
  assert.equal(verdict(source, requestAt(nowS), Number.NaN), 'timestamp_stale')
  assert.equal(verdict({ ...source, toleranceMs: 10_000 }, requestAt(nowS - 11), atS), 'timestamp_stale')
}

function flip(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes)
  const at = bit >> 3
  copy[at] = (copy[at] ?? 0) ^ (1 << (bit & 7))
  return copy
}
