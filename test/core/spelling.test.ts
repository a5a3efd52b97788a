import assert from 'node:assert/strict'
import { test } from 'node:test'
import { didYouMean } from '../../src/core/spelling.ts'

const known = ['type', 'data', 'maxAttempts', 'POSTHORN_PORT']

test('names the word that was probably meant', () => {
  assert.equal(didYouMean('typ', known), '; did you mean type?')
  assert.equal(didYouMean('maxAttempt', known), '; did you mean maxAttempts?')
  assert.equal(didYouMean('max_attempts', known), '; did you mean maxAttempts?')
  assert.equal(didYouMean('POSTHORN_PROT', known), '; did you mean POSTHORN_PORT?')
  assert.equal(didYouMean('TYPE', known), '; did you mean type?')
})

test('says nothing when no word is near', () => {
  assert.equal(didYouMean('colour', known), '')
  assert.equal(didYouMean('', known), '')
  assert.equal(didYouMean('x'.repeat(100_000), known), '')
})
