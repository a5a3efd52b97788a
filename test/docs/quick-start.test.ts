import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { folderFor } from '../cli/server.ts'
import { missingLines, stepsOf, Walk } from './walk.ts'

const hasTools = [
  ['bash', '--version'],
  ['curl', '--version'],
  ['openssl', 'version'],
].every(([tool = '', flag = '']) => spawnSync(tool, [flag]).status === 0)
const skip = hasTools ? false : 'bash, curl or openssl is not installed'

async function follow(walk: Walk, page: string, until?: string): Promise<void> {
  const steps = stepsOf(page, until)
  assert.ok(steps.length >= 3, page)
  for (const step of steps) {
    const printed = await walk.take(step)
    const place = `${page}:${step.line}\n${step.commands}\nprinted:\n${printed}`
    assert.doesNotMatch(printed, /unknown (?:command|option)|unexpected error|command not found|^warning: /m, place)
    if (step.shown !== null) assert.deepEqual(missingLines(step.shown, printed), [], place)
  }
}

test('docs/quick-start.md can be followed from top to bottom', { skip }, async (t) => {
  const walk = await Walk.begin(folderFor(t))
  t.after(() => walk.end())
  assert.ok(stepsOf('docs/quick-start.md').length >= 8)
  await follow(walk, 'docs/quick-start.md')
})

test('README.md, the quick start and docs/inbound.md can be followed one after the other', { skip }, async (t) => {
  const walk = await Walk.begin(folderFor(t))
  t.after(() => walk.end())
  await follow(walk, 'README.md', '| | |')
  await follow(walk, 'docs/quick-start.md')
  await follow(walk, 'docs/inbound.md', '## Providers')
})

test('docs/inbound.md can be followed by itself, and what it sends arrives', { skip }, async (t) => {
  const walk = await Walk.begin(folderFor(t))
  t.after(() => walk.end())
  await follow(walk, 'docs/inbound.md', '## Providers')
})

describe('what a page shows', () => {
  test('is found in its order, with … for anything', () => {
    assert.deepEqual(missingLines('a … c\nd', 'x\na  b  c\nd\n'), [])
    assert.deepEqual(missingLines('d\na … c', 'a b c\nd\n'), ['a … c'])
    assert.deepEqual(missingLines('1+1', '11'), ['1+1'])
  })
})
