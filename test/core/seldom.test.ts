import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Seldom } from '../../src/core/seldom.ts'

test('one of a name passes per period, with the number of those held back before it', () => {
  const seldom = new Seldom(10)
  assert.equal(seldom.pass('a', 100), 0)
  for (const at of [100, 105, 109]) assert.equal(seldom.pass('a', at), null)
  assert.equal(seldom.pass('b', 109), 0)
  assert.equal(seldom.pass('a', 110), 3)
  assert.equal(seldom.pass('a', 111), null)
})

test('a clock that is set back silences nothing', () => {
  const seldom = new Seldom(10)
  seldom.pass('a', 1_000)
  assert.equal(seldom.pass('a', 1), 0)
})

test('what is remembered has a limit, beyond which names are new again', () => {
  const seldom = new Seldom(10)
  for (let n = 0; n < 10_000; n++) assert.equal(seldom.pass(`name ${n}`, 100), 0)
  assert.equal(seldom.pass('name 0', 100), null)
  assert.equal(seldom.pass('one more', 100), 0)
  assert.equal(seldom.pass('name 0', 100), 0)
})
