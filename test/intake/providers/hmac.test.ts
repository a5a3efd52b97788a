import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import type { HmacScheme } from '../../../src/core/source.ts'
import {
  aRequest,
  aSource,
  knowsRotation,
  knowsTheTime,
  nowS,
  refusesEveryFlip,
  secret,
  verdict,
  verified,
} from './scene.ts'

const plain: HmacScheme = {
  header: 'x-signature',
  algorithm: 'sha256',
  encoding: 'hex',
  prefix: '',
  timestampHeader: null,
  idHeader: null,
}
const body = '{"n":1}'

function signed(scheme: HmacScheme, text: string, seconds = nowS) {
  const content = scheme.timestampHeader === null ? text : `${seconds}.${text}`
  const signature = createHmac(scheme.algorithm, secret).update(content).digest(scheme.encoding)
  const timestamp = scheme.timestampHeader === null ? {} : { [scheme.timestampHeader]: String(seconds) }
  return aRequest(text, { [scheme.header]: scheme.prefix + signature, ...timestamp, 'x-id': 'id-1' })
}

const source = (scheme: Partial<HmacScheme> = {}) => aSource('hmac', { hmac: { ...plain, ...scheme } })

describe('a signature of somebody’s own making', () => {
  test('is accepted in every scheme, and refused with any bit changed', () => {
    const schemes = fc.record<HmacScheme>({
      header: fc.constantFrom('x-signature', 'authorization-hmac'),
      algorithm: fc.constantFrom('sha1', 'sha256', 'sha512'),
      encoding: fc.constantFrom('hex', 'base64'),
      prefix: fc.constantFrom('', 'sha256=', 'v1,'),
      timestampHeader: fc.constantFrom(null, 'x-time'),
      idHeader: fc.constantFrom(null, 'x-id'),
    })
    fc.assert(
      fc.property(schemes, fc.string({ unit: 'grapheme', maxLength: 20 }), (scheme, text) => {
        const known = aSource('hmac', { hmac: scheme })
        const request = signed(scheme, text)
        const eventId = scheme.idHeader === null ? null : 'id-1'
        assert.deepEqual(verified(known, request), { kind: 'event', eventId })
        const timed = scheme.timestampHeader === null ? [] : [scheme.timestampHeader]
        refusesEveryFlip(known, request, [scheme.header, ...timed])
      }),
      { numRuns: 30 },
    )
  })

  test('may be written in capitals throughout', () => {
    const prefix = 'sha256='
    const request = signed({ ...plain, prefix }, body)
    const [, digits = ''] = (request.headers['x-signature'] ?? '').split('=')
    const capitals = aRequest(body, { 'x-signature': prefix + digits.toUpperCase() })
    assert.equal(verdict(source({ prefix }), capitals), 'event')
    const wrongPrefix = aRequest(body, { 'x-signature': `SHA256=${digits.toUpperCase()}` })
    assert.equal(verdict(source({ prefix }), wrongPrefix), 'signature_wrong')
  })

  test('counts for five minutes, before and after, when it is timed', () => {
    const timed = { ...plain, timestampHeader: 'x-time' }
    knowsTheTime(source(timed), (seconds) => signed(timed, body, seconds))
    const { 'x-time': _, ...untimed } = signed(timed, body).headers
    assert.equal(verdict(source(timed), aRequest(body, untimed)), 'signature_missing')
  })

  test('is refused when its header is missing', () => {
    assert.equal(verdict(source(), aRequest(body, {})), 'signature_missing')
    assert.equal(verdict(source(), aRequest(body, { 'x-signature': '' })), 'signature_wrong')
  })

  test('is accepted with an older secret until that expires', () => {
    knowsRotation(source(), signed(plain, body))
  })
})

test('a source of the provider none takes what comes', () => {
  assert.deepEqual(verified(aSource('none', { secrets: [] }), aRequest('', {})), { kind: 'event', eventId: null })
})
