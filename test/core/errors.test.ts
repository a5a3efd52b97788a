import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errorCodes, PosthornError } from '../../src/core/errors.ts'

test('an error keeps its code, its message and its cause', () => {
  const cause = new Error('disk')
  const error = new PosthornError('store_full', 'The disk is full. Free some space.', { cause })
  assert.ok(error instanceof Error)
  assert.equal(error.name, 'PosthornError')
  assert.equal(error.code, 'store_full')
  assert.equal(error.message, 'The disk is full. Free some space.')
  assert.equal(error.cause, cause)
})

test('every code is listed once', () => {
  assert.equal(new Set(errorCodes).size, errorCodes.length)
})
