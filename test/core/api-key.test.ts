import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mayAct, roles } from '../../src/core/api-key.ts'

test('an admin may do everything, the others only what they are named for', () => {
  for (const needed of roles) {
    assert.equal(mayAct('admin', needed), true)
    assert.equal(mayAct('send', needed), needed === 'send')
    assert.equal(mayAct('read', needed), needed === 'read')
  }
})
