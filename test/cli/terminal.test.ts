import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { widthOf } from '../../src/cli/table.ts'
import { hasScript, onTerminal, posthorn } from './command.ts'

const skip = hasScript ? false : 'the command `script` is not installed'
const database = `sqlite:./${'deep/'.repeat(20)}posthorn.db`
const args = ['config', 'show', '--database', database]

describe('on a terminal', { skip }, () => {
  test('a table fits the width and has colours', async () => {
    const { code, stdout } = await onTerminal(args)
    assert.equal(code, 0)
    const lines = stripVTControlCharacters(stdout).trimEnd().split('\n')
    assert.deepEqual(
      lines.filter((line) => widthOf(line) > 80),
      [],
    )
    assert.match(lines.find((line) => line.startsWith('database')) ?? '', /deep\/.*… +flag/)
    assert.ok(stdout.includes('\u001b['))
  })

  test('NO_COLOR is obeyed', async () => {
    const { stdout } = await onTerminal(args, { env: { NO_COLOR: '1' } })
    assert.match(stdout, /^NAME/)
    assert.ok(!stdout.includes('\u001b['))
  })
})

describe('in a pipe', () => {
  test('a table is complete and has no colours', async () => {
    const { stdout } = await posthorn(args)
    assert.ok(stdout.includes(database))
    assert.ok(!stdout.includes('\u001b['))
  })

  test('JSON lines are one object a line', async () => {
    const { stdout } = await posthorn([...args, '-o', 'jsonl'])
    const rows: { name: string; value: string }[] = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.equal(rows.find(({ name }) => name === 'database')?.value, database)
  })
})
