import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { type Finding, RULES, type SourceFile } from './tidy/rules.ts'
import { functionsOf, importsOf, mask } from './tidy/scan.ts'

const root = path.dirname(import.meta.dirname)
const NOT_OURS = new Set(['.git', '.runtime', 'node_modules', 'dist', 'data'])
const TEXT_BYTES_MAX = 1_000_000

describe('the tree', () => {
  const files = textFiles()
  for (const [promise, rule] of Object.entries(RULES)) {
    test(promise, () => {
      const findings = rule(files)
      if (findings.length > 0) assert.fail(`\n${findings.map(format).join('\n')}`)
    })
  }
})

/** For each rule: trees that break it, with a piece of the reason, and a tree that keeps it. */
type Seed = Readonly<{ rule: string; tree: Readonly<Record<string, string>>; says?: string }>

const lines = (count: number) => 'call()\n'.repeat(count)
const todo = ['TO', 'DO'].join('')
const registry = ['registry', 'npmjs', 'org'].join('.')
const resolved = JSON.stringify('resolved')
const home = ['', 'home', 'ada', 'posthorn'].join('/')

const SEEDS: readonly Seed[] = [
  ...seeds('imports follow the table', [
    [{ 'src/core/a.ts': "import { b } from './b.ts'" }],
    [{ 'src/core/a.ts': "import { x } from '../store/store.ts'" }, 'imports store/store.ts'],
    [{ 'src/core/a.ts': "import { createHmac } from 'node:crypto'" }, 'core imports nothing'],
    [{ 'src/core/a.ts': "import { z } from 'zod'" }, 'core imports nothing'],
    [{ 'src/store/sqlite/a.ts': "import type { S } from '../store.ts'\nimport { DatabaseSync } from 'node:sqlite'" }],
    [{ 'src/store/a.ts': "import { t } from '../transports/transport.ts'" }, 'imports transports/transport.ts'],
    [{ 'src/store/postgres/a.ts': "import { DatabaseSync } from 'node:sqlite'" }, 'only home is src/store/sqlite/'],
    [{ 'src/dispatch/a.ts': "import type { S } from '../store/store.ts'" }],
    [{ 'src/dispatch/a.ts': "import { open } from '../store/sqlite/open.ts'" }, 'imports store/sqlite/open.ts'],
    [{ 'src/dispatch/a.ts': "const late = await import('../store/sqlite/open.ts')" }, 'imports store/sqlite/open.ts'],
    [{ 'src/consumer/a.ts': "import { d } from '../dispatch/d.ts'" }, 'imports dispatch/d.ts'],
    [{ 'src/upkeep/a.ts': "import { d } from '../dispatch/d.ts'\nimport p from 'prom-client'" }],
    [{ 'src/upkeep/a.ts': "import { s } from '../server/s.ts'" }, 'imports server/s.ts'],
    [{ 'src/server/a.ts': "import { openApp } from '../app.ts'" }, 'imports app.ts'],
    [{ 'src/server/a.ts': "export * from '../intake/intake.ts'\nimport fastify from 'fastify'" }],
    [{ 'src/cli/a.ts': "import { c } from '../server/client.ts'\nimport { Command } from 'commander'" }],
    [{ 'src/cli/a.ts': "import { c } from '../server/routes.ts'" }, 'imports server/routes.ts'],
    [{ 'src/server/a.ts': "import { pino } from 'pino'" }, 'only home is src/log.ts'],
    [{ 'src/transports/relay/a.ts': "import { Agent } from 'undici'" }, 'only home is src/transports/http/'],
    [{ 'src/new/a.ts': "import { b } from '../core/b.ts'" }, 'no row in the import table'],
    [{ 'src/server/a.ts': "import { x } from '../../test/x.ts'" }, 'outside src/'],
    [{ 'src/app.ts': "import { s } from './store/sqlite/s.ts'\nimport { h } from './transports/http/h.ts'" }],
    [{ 'src/index.ts': "import { s } from './store/sqlite/s.ts'" }, 'imports store/sqlite/s.ts'],
  ]),
  ...seeds('core is pure', [
    [{ 'src/core/a.ts': '// Date.now() is for the edges\nconst at = new Date(now).toISOString()' }],
    [{ 'src/store/a.ts': 'const now = Date.now()' }],
    [{ 'src/core/a.ts': 'const now = Date.now()' }, 'asks the clock'],
    [{ 'src/core/a.ts': 'const now = new Date()' }, 'asks the clock'],
    [{ 'src/core/a.ts': 'const now = performance.now()' }, 'asks the clock'],
    [{ 'src/core/a.ts': 'const jitter = Math.random()' }, 'random'],
    [{ 'src/core/a.ts': 'const id = crypto.randomUUID()' }, 'crypto'],
    [{ 'src/core/a.ts': 'setTimeout(retry, 5)' }, 'waits'],
    [{ 'src/core/a.ts': 'const size = `${process.pid}`' }, 'process'],
    [{ 'src/core/a.ts': 'const answer = fetch(url)' }, 'network'],
    [{ 'src/core/a.ts': 'const bytes = Buffer.from(text)' }, 'Buffer'],
    [{ 'src/core/a.ts': 'const load = async () => 1' }, 'asynchronous'],
  ]),
  ...seeds('files and functions are short', [
    [{ 'src/a.ts': lines(400), 'src/b.ts': lines(9), 'src/c.ts': lines(100), 'test/a.test.ts': lines(400) }],
    [{ 'src/a.ts': lines(101), 'src/b.ts': lines(9), 'src/c.ts': lines(101) }, 'the median is at most 100'],
    [{ 'src/a.ts': lines(401) }, '401 lines; a file'],
    [{ 'test/a.test.ts': lines(401) }, '401 lines; a file'],
    [{ 'src/a.ts': `function long(): void {\n${lines(58)}}\n` }],
    [{ 'src/a.ts': `function long(): void {\n${lines(59)}}\n` }, '61 lines; a function'],
    [{ 'src/a.ts': `const long = (a: number): { b: number } => {\n${lines(59)}}\n` }, '61 lines; a function'],
    [{ 'src/a.ts': `class A {\n  m(): Promise<{ b: 1 }> {\n${lines(59)}}\n}\n` }, '61 lines; a function'],
  ]),
  ...seeds('nothing is orphaned', [
    [{ 'src/core/alone.ts': '' }],
    [{ 'src/index.ts': '', 'src/cli/main.ts': "import './x.ts'", 'src/cli/x.ts': '' }],
    [{ 'src/index.ts': '', 'src/cli/main.ts': '', 'src/core/alone.ts': '' }, 'nothing reachable'],
    [{ 'src/index.ts': "new URL('./worker.ts', import.meta.url)", 'src/cli/main.ts': '', 'src/worker.ts': '' }],
    [{ 'src/index.ts': "const w = await import('./w.ts')", 'src/cli/main.ts': '', 'src/w.ts': '' }],
    [{ 'src/index.ts': "// import './w.ts'", 'src/cli/main.ts': '', 'src/w.ts': '' }, 'nothing reachable'],
  ]),
  ...seeds('every rule of core has its test', [
    [{ 'src/core/a.ts': 'export type A = 1\nexport interface B {}' }],
    [{ 'src/core/a.ts': 'export const a = 1', 'test/core/a.test.ts': '' }],
    [{ 'src/core/a.ts': 'export const a = 1' }, 'has no test/core/a.test.ts'],
  ]),
  ...seeds('every environment variable is documented and read in one place', [
    [{ 'src/config.ts': 'process.env.POSTHORN_PORT', 'docs/configuration.md': '`POSTHORN_PORT`' }],
    [{ 'src/config.ts': "key('POSTHORN_PORT')", 'docs/configuration.md': 'POSTHORN_PORTAL' }, 'POSTHORN_PORT is not'],
    [{ 'src/config.ts': "process.env['SPECIAL']", 'docs/configuration.md': '' }, 'SPECIAL is not'],
    [{ 'src/config.ts': "name: 'MAX_ATTEMPTS'" }, 'MAX_ATTEMPTS is not'],
    [{ 'src/server/a.ts': 'read(process.env)' }, 'nowhere else'],
    [{ 'src/cli/main.ts': 'main(process.argv, process.env)' }],
    [{ 'src/cli/main.ts': 'process.env.HOST', 'docs/configuration.md': 'HOST' }, 'hand process.env on'],
  ]),
  ...seeds('types and objects are written out', [
    [{ 'src/a.ts': "const a = { ...b, c }\ntype D = Omit<E, 'f'>\ntype G = E & { f: 1 }" }],
    [{ 'src/a.ts': 'const a = { b, ...{ c, d } }' }, 'spread where it is written'],
    [{ 'src/a.ts': "const a = [...['b', 'c'], 'd']" }, 'a list is spread'],
    [{ 'src/a.ts': "const a = [...['b', 'c'].map((d) => d), ...e]" }],
    [{ 'src/a.ts': "type A = Readonly<Omit<B, 'c' | 'd'> & { c: 1 }>" }, 'carved out'],
  ]),
  ...seeds('names say something', [
    [{ 'src/lanes.ts': "import { inspect } from 'node:util'\nconst implied = 1" }],
    [{ 'src/utils/text.ts': '' }, 'name says nothing'],
    [{ 'src/core/types.ts': '' }, 'name says nothing'],
    [{ 'src/delivery-manager.ts': '' }, 'name says nothing'],
    [{ 'src/a.ts': 'export class QueueManager {}' }, 'class QueueManager'],
    [{ 'src/a.ts': 'export class StoreImpl {}' }, 'class StoreImpl'],
    [{ 'test/a.ts': 'const testHelpers = {}' }, 'const testHelpers'],
  ]),
  ...seeds('nothing is left over', [
    [{ 'src/a.ts': 'take.skip(1)', 'test/a.test.ts': "const s = 'test.only('\ntest('x', { skip: why }, run)" }],
    [{ 'docs/a.md': `${todo}: write this` }, 'do it or open an issue'],
    [{ 'test/a.test.ts': "test.only('x', run)" }, 'leaves tests out'],
    [{ 'test/a.test.ts': "describe.skip('x', run)" }, 'leaves tests out'],
  ]),
  ...seeds('no file knows a machine or a registry', [
    [{ 'README.md': 'See https://example.com/work/orders and /v1/events' }],
    [{ 'package-lock.json': `${resolved}: "https://mirror.example/a.tgz"` }, 'registry host'],
    [{ '.npmrc': `registry=https://${registry}/` }, 'registry host'],
    [{ 'docs/a.md': `cd ${home}` }, 'a path of one machine'],
  ]),
]

describe('each rule', () => {
  for (const { rule, tree, says } of SEEDS) {
    const shown = Object.entries(tree).map(([name, text]) => `${name}: ${text.slice(0, 70).replaceAll('\n', ' ⏎ ')}`)
    test(`${rule} ${says === undefined ? 'accepts' : 'rejects'} ${shown.join(' + ')}`, () => {
      const files = Object.entries(tree).map(([name, text]) => ({ path: name, text }))
      const findings = RULES[rule]!(files).map(format)
      if (says === undefined) assert.deepEqual(findings, [])
      else
        assert.ok(
          findings.some((finding) => finding.includes(says)),
          `expected "${says}" in ${JSON.stringify(findings)}`,
        )
    })
  }

  test('has a seed that breaks it', () => {
    const broken = new Set(SEEDS.filter(({ says }) => says !== undefined).map(({ rule }) => rule))
    assert.deepEqual([...broken].sort(), Object.keys(RULES).sort())
  })
})

describe('the scanner', () => {
  test('blanks comments, strings, templates and regular expressions, and keeps the code between', () => {
    assert.equal(mask("a('x{') // b"), "a('  ')     ")
    assert.equal(mask('a(`x${b + `y`}z`) / c'), 'a(`   b + ` `  `) / c')
    assert.equal(mask('a = /[/"]{/.test(b) /* { */'), 'a = /     /.test(b)        ')
    assert.equal(mask('x = a / b / c'), 'x = a / b / c')
    assert.equal(mask("it('x', () => { '\\'{' })"), "it(' ', () => { '   ' })")
  })

  test('finds imports of every shape, and none in comments', () => {
    const text = [
      "import type {\n  A,\n} from './a.ts'",
      "export * from './b.ts'",
      "import './c.ts'",
      "// import './no.ts'",
      "await import('./d.ts')",
      "new URL('./e.ts', import.meta.url)",
    ].join('\n')
    const targets = importsOf(text).map(({ target }) => target)
    assert.deepEqual(targets.sort(), ['./a.ts', './b.ts', './c.ts', './d.ts', './e.ts'])
  })

  test('finds functions of every shape, and no blocks', () => {
    const text = [
      'export function a(b: { c: 1 }): void {\n}',
      'const d = async <T>(e: T): Promise<T> => {\n}',
      'class F { get g(): number { return 1 } h(i = {}): { j: 1 } | undefined { return undefined } }',
      'if (k) {\n} else {\n}',
      'for (const l of m) {\n}',
      'interface N { o(p: 1): void }',
    ].join('\n')
    assert.deepEqual(
      functionsOf(text)
        .map(({ firstLine }) => firstLine)
        .sort(),
      [1, 3, 5, 5],
    )
  })
})

function seeds(rule: string, rows: readonly (readonly [Seed['tree'], string?])[]): readonly Seed[] {
  return rows.map(([tree, says]) => (says === undefined ? { rule, tree } : { rule, tree, says }))
}

function format({ path, line, why }: Finding): string {
  return `${path}${line === undefined ? '' : `:${line}`}  ${why}`
}

function textFiles(folder = ''): readonly SourceFile[] {
  const entries = readdirSync(path.join(root, folder), { withFileTypes: true })
  return entries.flatMap((entry) => {
    const name = path.posix.join(folder, entry.name)
    // `.git` is a file in a git worktree.
    if (NOT_OURS.has(entry.name)) return []
    if (entry.isDirectory()) return textFiles(name)
    if (!entry.isFile() || /\.(?:db|db-\w+|tgz)$/.test(name)) return []
    const bytes = readFileSync(path.join(root, name))
    const isText = bytes.length <= TEXT_BYTES_MAX && !bytes.includes(0)
    return isText ? [{ path: name, text: bytes.toString('utf8') }] : []
  })
}
