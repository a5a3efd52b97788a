import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
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

describe('what comes from others', { skip }, () => {
  const hostile = 'x\u009b2J\u202ey\u007f'

  for (const format of ['json', 'jsonl', 'table']) {
    test(`is shown by a terminal and not obeyed, as ${format}`, async () => {
      const { stdout } = await onTerminal(['config', 'show', '--handlers', hostile, '-o', format])
      assert.match(stdout, /x\\u009b2J\\u202ey\\u007f/)
      assert.doesNotMatch(stdout, /[\u007f-\u009f\u202e]/)
    })
  }

  test('is not obeyed in an error either', async () => {
    const { stdout } = await onTerminal(['events', 'list'], { env: { POSTHORN_URL: 'ftp://\u001b]0;t\u0007/\u009b' } })
    assert.match(stdout, /\\u001b\]0;t\\u0007\/\\u009b/)
    for (const control of ['\u001b]', '\u0007', '\u009b']) assert.ok(!stdout.includes(control))
  })

  test('is not obeyed in a pretty log', async () => {
    const program = `
      const { openLog } = await import(${JSON.stringify(new URL('../../src/log.ts', import.meta.url).href)})
      const hostile = 'a\\u001b]0;t\\u0007b\\u009bc\\u202e'
      openLog({ level: 'info', format: 'pretty' }).warn({ error: hostile, err: new Error(hostile) }, hostile)`
    const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
    assert.equal(stderr.match(/c\\u202e/g)?.length, 4, stderr)
    for (const control of ['\u001b]', '\u0007', '\u009b', '\u202e']) assert.ok(!stderr.includes(control))
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
