import assert from 'node:assert/strict'
import { test } from 'node:test'
import { providers } from '../../src/core/source.ts'
import { typeTemplateProblem } from '../../src/core/type-template.ts'
import { providerRules } from '../../src/intake/providers/providers.ts'

test('the providers are the words that the API and stored rows use', () => {
  const known = ['github', 'stripe', 'slack', 'shopify', 'twilio', 'square', 'standard', 'hmac', 'none']
  assert.deepEqual(providers, known)
})

test('every provider has its rules, and a type for its events that can be one', () => {
  for (const provider of providers) {
    const { type } = providerRules[provider]
    assert.equal(type === null ? null : typeTemplateProblem(type), null, provider)
  }
})
