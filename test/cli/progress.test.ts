import assert from 'node:assert/strict'
import path from 'node:path'
import { describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { progressLine } from '../../src/cli/progress.ts'
import { widthOf } from '../../src/cli/table.ts'
import { hasScript, onTerminal, posthorn } from './command.ts'

const program = path.join(import.meta.dirname, 'pieces.ts')
const skip = hasScript ? false : 'the command `script` is not installed'
const clearLine = '\r\u001b[K'

describe('a progress bar on a terminal', { skip }, () => {
  test('is one line, rewritten within the width, and gone at the end', async () => {
    const { code, stdout } = await onTerminal(['progress'], { program })
    assert.equal(code, 0)
    const shown = stdout.split(clearLine).map((text) => stripVTControlCharacters(text))
    assert.ok(
      shown.every((text) => text.split('\n').every((line) => widthOf(line) < 80)),
      stdout,
    )
    assert.ok(shown.some((text) => /^█{15}░{15} {2}dead letters replayed: 1,000 of 2,000 \(50 %\)$/.test(text)))
    assert.ok(shown.some((text) => /^█{22} {2}.*2,000 of 2,000 \(100 %\), 3 failed$/.test(text)))
    assert.equal(shown.at(-1), 'done\n')
  })

  test('makes way for data', async () => {
    const { stdout } = await onTerminal(['progress'], { program })
    assert.ok(stdout.includes(`${clearLine}data in between\n`))
  })

  test('has colours, and none under NO_COLOR', async () => {
    const colourful = await onTerminal(['progress'], { program })
    assert.ok(colourful.stdout.includes('\u001b[32m█'))
    const plain = await onTerminal(['progress'], { program, env: { NO_COLOR: '1' } })
    assert.match(plain.stdout, /█/)
    assert.ok(!plain.stdout.replaceAll(clearLine, '').includes('\u001b'))
  })

  test('counts without a bar while the total is unknown', async () => {
    const { stdout } = await onTerminal(['unknown-total'], { program })
    assert.ok(stdout.includes(`${clearLine}dead letters replayed: 1,000`))
    assert.doesNotMatch(stdout, /█|of|%/)
  })

  test('a dumb terminal gets lines', async () => {
    const { stdout } = await onTerminal(['progress'], { program, env: { TERM: 'dumb', NO_COLOR: '1' } })
    assert.match(stdout, /1,000 of 2,000/)
    assert.ok(!stdout.includes('\u001b') && !stdout.includes('█'))
  })
})

test('in a pipe progress is a line every few seconds, without colours or a bar', async () => {
  const { stdout, stderr } = await posthorn(['progress'], { program })
  assert.equal(stdout, 'data in between\n')
  assert.deepEqual(stderr.split('\n'), [
    'dead letters replayed: 500 of 2,000 (25 %)',
    'dead letters replayed: 1,000 of 2,000 (50 %)',
    'dead letters replayed: 1,500 of 2,000 (75 %), 3 failed',
    'dead letters replayed: 2,000 of 2,000 (100 %), 3 failed',
    'done',
    '',
  ])
})

test('a progress line fits every width, and the bar goes before the words do', () => {
  const work = { label: 'replayed:', total: 0 }
  for (let columns = 1; columns < 80; columns += 1) {
    const { bar, text } = progressLine(work, 0, 'nothing to do', columns)
    assert.ok(widthOf(bar + text) < Math.max(columns, 2), `${columns}: ${bar}${text}`)
  }
  assert.equal(progressLine(work, 0, 'nothing to do', 45).bar, '')
  assert.equal(progressLine(work, 0, 'nothing to do', 50).text.trim(), 'replayed: 0 of 0 (100 %), nothing to do')
})

describe('a confirmation', () => {
  for (const [answer, expected] of [
    ['y', 'true'],
    ['YES', 'true'],
    ['n', 'false'],
    ['', 'false'],
    ['yesterday', 'false'],
  ] as const) {
    test(`on a terminal takes "${answer}" as ${expected}`, { skip }, async () => {
      const { code, stdout } = await onTerminal(['confirm'], { program, input: `${answer}\n` })
      assert.equal(code, 0)
      assert.match(stdout, new RegExp(`delete 12 dead letters\\? \\[y/N\\] [\\s\\S]*\\n${expected}\\n$`))
    })
  }

  test('is not asked for with --yes', async () => {
    const { stdout, stderr } = await posthorn(['confirm', '--yes'], { program })
    assert.deepEqual([stdout, stderr], ['true\n', ''])
  })

  test('without a terminal refuses as wrong usage, and says how to go on', async () => {
    const { code, stdout, stderr } = await posthorn(['confirm'], { program, input: 'y\n' })
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, /^delete 12 dead letters\? .*add --yes/)
  })
})
