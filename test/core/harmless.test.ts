import assert from 'node:assert/strict'
import { test } from 'node:test'
import { harmless, printable } from '../../src/core/harmless.ts'

const hostile = 'a\u001b]0;title\u0007b\u009b2Jc\u202ed\u2066e\u200ff\u007f'
const shown = 'a\\u001b]0;title\\u0007b\\u009b2Jc\\u202ed\\u2066e\\u200ff\\u007f'

test('what a terminal would obey is shown', () => {
  assert.equal(printable(hostile), shown)
  assert.equal(printable('a\r\n\tb'), 'a\\u000d\\n\\tb')
})

test('lines of ours keep their line ends and colours, and nothing else that a terminal obeys', () => {
  assert.equal(harmless(`\u001b[1;31mred\u001b[39m\n\t${hostile}\n`), `\u001b[1;31mred\u001b[39m\n\t${shown}\n`)
  assert.equal(harmless('\u001b[2J\u001b[H'), '\\u001b[2J\\u001b[H')
})

test('JSON stays the same JSON', () => {
  const value = { text: hostile, list: ['\u009b', 'ä', '\n'] }
  for (const indent of [0, 2]) assert.deepEqual(JSON.parse(harmless(JSON.stringify(value, null, indent))), value)
})
