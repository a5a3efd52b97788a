import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { cliPage } from '../../scripts/cli-page.ts'
import { commandShapes } from '../../src/cli/command-tree.ts'
import { examples } from '../../src/cli/examples.ts'
import { buildProgram } from '../../src/cli/program.ts'
import { openTerminal } from '../../src/cli/terminal.ts'
import { posthorn } from './command.ts'

const shapes = commandShapes(buildProgram(openTerminal({})))
const leaves = shapes.filter(({ commands, path: at }) => commands.length === 0 && !at.includes('help'))
const page = readFileSync(path.join(import.meta.dirname, '../../docs/cli.md'), 'utf8')

describe('docs/cli.md', () => {
  test('is what the program says: write it again with `node scripts/cli-page.ts > docs/cli.md`', () => {
    assert.equal(page, cliPage())
  })

  test('has every command and every option', () => {
    const sections = new Map(page.split(/^## posthorn /m).map((text) => [text.split('\n')[0] ?? '', text]))
    const missing = leaves.flatMap(({ path: at, options }) => {
      const section = sections.get(at.join(' ')) ?? ''
      const all = section.includes('every setting of') ? section + (sections.get('start') ?? '') : section
      const names = options.flatMap((option) => option.names).filter((name) => !/^(?:-h|--help)$/.test(name))
      return names.filter((name) => !all.includes(name)).map((name) => `${at.join(' ')} ${name}`)
    })
    assert.deepEqual(missing, [])
  })
})

describe('the examples', () => {
  test('are there for every command, and for nothing else', () => {
    assert.deepEqual(Object.keys(examples).toSorted(), leaves.map(({ path: at }) => at.join(' ')).toSorted())
  })

  for (const { path: at, options } of leaves) {
    const name = at.join(' ')
    for (const line of examples[name] ?? []) {
      test(`use what there is: ${line}`, () => {
        const command = /(?:^|[|(] ?)(posthorn .*)/.exec(line.replace(/ {2}#.*/, ''))?.[1] ?? ''
        assert.ok(command.startsWith(`posthorn ${name}`), line)
        const used = command.replace(/"\$\(.*\)"|'[^']*'/g, '').match(/--[\w-]+/g) ?? []
        const known = options.flatMap(({ names }) => names)
        assert.deepEqual(
          used.filter((flag) => !known.includes(flag)),
          [],
        )
      })
    }
  }

  test('are shown by --help', async () => {
    const { stdout } = await posthorn(['deliveries', 'list', '--help'])
    assert.ok(stdout.includes(`Examples:\n  ${examples['deliveries list']?.[0]}`))
  })

  test('every option says what it is for', () => {
    const silent = shapes.flatMap(({ path: at, options }) =>
      options.filter(({ about }) => about === '').map(({ flags }) => `${at.join(' ')} ${flags}`),
    )
    assert.deepEqual(silent, [])
  })
})
