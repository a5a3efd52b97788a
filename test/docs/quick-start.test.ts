import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { folderFor } from '../cli/server.ts'
import { missingLines, stepsOf, Walk } from './walk.ts'

const hasTools = ['bash', 'curl'].every((tool) => spawnSync(tool, ['--version']).status === 0)
const skip = hasTools ? false : 'bash or curl is not installed'

test('docs/quick-start.md can be followed from top to bottom', { skip }, async (t) => {
  const walk = await Walk.begin(folderFor(t))
  t.after(() => walk.end())
  const steps = stepsOf('docs/quick-start.md')
  assert.ok(steps.length >= 8)
  for (const step of steps) {
    const printed = await walk.take(step)
    const place = `docs/quick-start.md:${step.line}\n${step.commands}\nprinted:\n${printed}`
    assert.doesNotMatch(printed, /unknown (?:command|option)|unexpected error|command not found/, place)
    if (step.shown !== null) assert.deepEqual(missingLines(step.shown, printed), [], place)
  }
})

describe('what a page shows', () => {
  test('is found in its order, with … for anything', () => {
    assert.deepEqual(missingLines('a … c\nd', 'x\na  b  c\nd\n'), [])
    assert.deepEqual(missingLines('d\na … c', 'a b c\nd\n'), ['a … c'])
    assert.deepEqual(missingLines('1+1', '11'), ['1+1'])
  })
})
