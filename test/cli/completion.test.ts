import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { type CommandShape, commandShapes } from '../../src/cli/command-tree.ts'
import { shells } from '../../src/cli/completion-scripts.ts'
import { buildProgram } from '../../src/cli/program.ts'
import { openTerminal } from '../../src/cli/terminal.ts'
import { posthorn } from './command.ts'
import { folderFor } from './server.ts'

const skipUnless = (shell: string) =>
  spawnSync(shell, ['--version']).status === 0 ? false : `${shell} is not installed`

const shapes = commandShapes(buildProgram(openTerminal({})))

async function scriptOf(shell: string): Promise<string> {
  const { code, stdout, stderr } = await posthorn(['completion', shell])
  assert.equal(code, 0, stderr)
  return stdout
}

describe('completion in bash', { skip: skipUnless('bash') }, () => {
  /** What bash offers for these words; the last one is being typed. */
  async function offered(words: readonly string[], cwd?: string): Promise<readonly string[]> {
    const script = `${await scriptOf('bash')}
      compopt() { :; }
      COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')})
      COMP_CWORD=${words.length - 1}
      _posthorn
      printf '%s\\n' "\${COMPREPLY[@]}"`
    const { status, stdout, stderr } = spawnSync('bash', ['--norc', '-u', '-c', script], { encoding: 'utf8', cwd })
    assert.deepEqual([status, stderr], [0, ''])
    return stdout.split('\n').filter((line) => line !== '')
  }

  for (const [typed, expected] of [
    ['posthorn deli', ['deliveries']],
    ['posthorn endpoints p', ['pause']],
    ['posthorn deliveries list --sta', ['--status', '--status-class']],
    ['posthorn deliveries list --status d', ['delivered', 'dead_letter']],
    ['posthorn deliveries list --status = de', ['delivered', 'dead_letter']],
    ['posthorn deliveries list -o j', ['json', 'jsonl']],
    ['posthorn endpoints create https://x.example --ordering k', ['key']],
    // The value of an option is no command, even if it reads like one.
    ['posthorn send --key endpoints --ba', ['--batch']],
    ['posthorn completion f', ['fish']],
    ['posthorn start --por', ['--port']],
    ['posthorn --por', []],
    ['posthorn send --key ', []],
  ] as const) {
    test(`offers ${expected.join(' ') || 'nothing'} for \`${typed}\``, async () => {
      assert.deepEqual((await offered(typed.split(' '))).toSorted(), expected.toSorted())
    })
  }

  test('offers every command of the program', async () => {
    assert.deepEqual(
      (await offered(['posthorn', ''])).toSorted(),
      shapes[0]?.commands.map(({ name }) => name).toSorted(),
    )
  })

  test('offers files where a file is wanted', async (t) => {
    const folder = folderFor(t)
    writeFileSync(path.join(folder, 'orders.ndjson'), '')
    assert.deepEqual(await offered(['posthorn', 'send', '--batch', '--file', 'ord'], folder), ['orders.ndjson'])
  })

  test('is registered when the script is loaded', async () => {
    const { stdout } = spawnSync('bash', ['-c', `${await scriptOf('bash')}\ncomplete -p posthorn`], {
      encoding: 'utf8',
    })
    assert.match(stdout, /-F _posthorn posthorn/)
  })
})

describe('completion scripts', () => {
  for (const shell of shells) {
    test(`for ${shell} know every command, option and choice`, async () => {
      const script = await scriptOf(shell)
      const missing = shapes.flatMap((shape) => wordsOf(shape, shell).filter((word) => !script.includes(word)))
      assert.deepEqual(missing, [])
    })
  }

  for (const [shell, args] of [
    ['bash', ['-n']],
    ['zsh', ['-n']],
    ['fish', ['--no-execute']],
  ] as const) {
    test(`for ${shell} are well formed`, { skip: skipUnless(shell) }, async (t) => {
      const file = path.join(folderFor(t), 'script')
      writeFileSync(file, await scriptOf(shell))
      const { status, stderr } = spawnSync(shell, [...args, file], { encoding: 'utf8' })
      assert.deepEqual([status, stderr], [0, ''])
    })
  }

  test('balance their quotes and brackets', async () => {
    for (const shell of ['zsh', 'fish']) {
      const script = await scriptOf(shell)
      for (const line of script.split('\n').filter((text) => !text.startsWith('#'))) {
        const outside = line.replace(shell === 'fish' ? /'(?:[^'\\]|\\.)*'/g : /'[^']*'|\\'/g, '')
        assert.ok(!outside.includes("'"), `${shell}: ${line}`)
      }
    }
  })

  test('are only for the shells there are', async () => {
    const { code, stderr } = await posthorn(['completion', 'tcsh'])
    assert.equal(code, 2)
    assert.match(stderr, /Allowed choices are bash, zsh, fish/)
  })
})

function wordsOf({ path: at, options, commands }: CommandShape, shell: string): readonly string[] {
  const names = options.flatMap((option) => option.names)
  const prefix = at.join(' ')
  return [
    ...commands.map(({ name }) => (prefix === '' ? `'|${name}'` : `'${prefix}|${name}'`)),
    ...(shell === 'fish' ? names.map((name) => name.replace(/^--/, '-l ').replace(/^-(\w)$/, '-s $1')) : names),
    ...options.flatMap(({ choices }) => choices),
  ]
}
