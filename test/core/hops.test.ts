import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hopsHeader, hopsIn, hopsOf } from '../../src/core/hops.ts'

test('a count of hops is read, and what is not a count is none', () => {
  assert.equal(hopsIn('3'), 3)
  assert.equal(hopsIn('5, 11'), 11, 'a header that comes twice')
  assert.equal(hopsIn('999999999'), 999_999_999)
  for (const odd of [undefined, '', '-1', '1.5', '1e3', '0x10', 'NaN', '9'.repeat(10), ['1', '2']]) {
    assert.equal(hopsIn(odd), 0, String(odd))
  }
})

test('an event that keeps no count has passed no other Posthorn', () => {
  assert.equal(hopsOf({}), 0)
  assert.equal(hopsOf({ [hopsHeader]: '4' }), 4)
})
