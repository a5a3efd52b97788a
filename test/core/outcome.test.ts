import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isUnwanted, outcomeKinds, reasons } from '../../src/core/outcome.ts'

test('outcomes and reasons are the words that the documents, the API and stored rows use', () => {
  assert.deepEqual(outcomeKinds, ['delivered', 'permanent', 'retryable', 'unavailable', 'ours'])
  // Rows carry these: one may be added, none may go or change.
  const kept = ['exhausted', 'permanent_status', 'gone', 'expired', 'endpoint_deleted', 'cancelled', 'breaker_open']
  kept.push('crashed', 'too_large', 'rejected_by_handler', 'blocked_address')
  for (const reason of kept) assert.ok((reasons as readonly string[]).includes(reason), reason)
  assert.equal(new Set(reasons).size, reasons.length)
})

test('the end of a dead letter that a person asked for is no bad news', () => {
  assert.deepEqual((['exhausted', 'expired', 'crashed', 'cancelled', 'endpoint_deleted'] as const).map(isUnwanted), [
    true,
    true,
    true,
    false,
    false,
  ])
})
