import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Webhooks } from '@octokit/webhooks'
import fc from 'fast-check'
import { hmac } from '../../../src/hmac.ts'
import { aRequest, aSource, knowsRotation, refusesEveryFlip, secret, verdict, verified } from './scene.ts'

const source = aSource('github')
const octokit = new Webhooks({ secret })
const body = '{"zen":"Keep it logically awesome.","hook_id":1,"é":"😀"}'

async function signed(text: string) {
  return aRequest(text, { 'x-hub-signature-256': await octokit.sign(text), 'x-github-delivery': 'd-1' })
}

describe('a webhook of GitHub', () => {
  test('is accepted as Octokit signs it, and known by its delivery', async () => {
    assert.deepEqual(verified(source, await signed(body)), { kind: 'event', eventId: 'd-1' })
  })

  test('is signed and verified alike by both, whatever the body', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ minLength: 1, unit: 'grapheme' }), async (text) => {
        assert.equal(verdict(source, await signed(text)), 'event')
        const ours = hmac({ algorithm: 'sha256', encoding: 'hex' }, secret, Buffer.from(text))
        assert.equal(await octokit.verify(text, `sha256=${ours}`), true)
      }),
      { numRuns: 50 },
    )
  })

  test('is refused with any bit changed', async () => {
    refusesEveryFlip(source, await signed(body), ['x-hub-signature-256'])
  })

  test('is refused without a signature of SHA-256', async () => {
    assert.equal(verdict(source, aRequest(body, {})), 'signature_missing')
    const sha1 = hmac({ algorithm: 'sha1', encoding: 'hex' }, secret, body)
    assert.equal(verdict(source, aRequest(body, { 'x-hub-signature': `sha1=${sha1}` })), 'signature_missing')
    assert.equal(verdict(source, aRequest(body, { 'x-hub-signature-256': `sha1=${sha1}` })), 'signature_wrong')
    assert.equal(verdict(source, aRequest(body, { 'x-hub-signature-256': '' })), 'signature_wrong')
  })

  test('is accepted with an older secret until that expires', async () => {
    knowsRotation(source, await signed(body))
  })

  test('of bytes that are no text is verified as bytes', () => {
    const bytes = Buffer.from([0xff, 0xfe, 0x00, 0x80])
    const signature = `sha256=${hmac({ algorithm: 'sha256', encoding: 'hex' }, secret, bytes)}`
    assert.equal(verdict(source, aRequest(bytes, { 'x-hub-signature-256': signature })), 'event')
    const others = Buffer.from([0xfe, 0xff, 0x00, 0x80])
    assert.equal(verdict(source, aRequest(others, { 'x-hub-signature-256': signature })), 'signature_wrong')
  })
})
