// The package as others get it: packed, installed from its tarball in a new project, and used from there.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { nodeProblem } from '../../src/cli/node-version.ts'

const root = path.join(import.meta.dirname, '../..')
const oldNode = '18.20.8'
const triesMax = 3
const project = mkdtempSync(path.join(tmpdir(), 'posthorn-package-'))

/** Runs to the end; answers what it printed. */
function run(command: string, args: readonly string[], cwd = project): { status: number | null; printed: string } {
  // The condition that a checkout sets means its sources, not the package.
  const env = { ...process.env, NODE_OPTIONS: '' }
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, env, encoding: 'utf8' })
  return { status, printed: `${stdout}${stderr}${error ?? ''}` }
}

/** Downloads can fail: these are tried again. */
function npm(...args: readonly string[]): void {
  for (let tries = 1; ; tries++) {
    const { status, printed } = run('npm', [...args, '--no-audit', '--no-fund', '--prefer-offline'])
    if (status === 0) return
    assert.ok(tries < triesMax, `npm ${args.join(' ')}:\n${printed}`)
  }
}

function write(name: string, text: string): void {
  writeFileSync(path.join(project, name), text)
}

const program = (load: string) => `
  ${load}
  const main = async () => {
    const posthorn = await openPosthorn({ database: 'sqlite:./' + process.argv[2] + '.db', logLevel: 'silent' })
    const { promise, resolve } = Promise.withResolvers()
    posthorn.handle('order.*', async (event) => resolve(event.data.id))
    await posthorn.send('order.created', { id: 42 })
    const { pathToFileURL } = await import('node:url')
    const failed = new Promise((resolve) => posthorn.on('attempt.settled', (notice) => notice.error && resolve(notice.error)))
    posthorn.handle('image.*', pathToFileURL('work.mjs'), { engine: 'process' })
    await posthorn.send('image.created', { parent: process.pid })
    console.log(await failed)
    console.log('handled', await promise, typeof fatal, new PosthornError('invalid', 'x') instanceof Error)
    await posthorn.close()
  }
  main()`

const work = `
  import { fatal } from 'posthorn'
  export default ({ data }) => { throw fatal(process.ppid === data.parent ? 'in a worker' : 'elsewhere') }`

const said = 'in a worker\nhandled 42 function true\n'

describe('the package, installed in a new project,', { timeout: 280_000 }, () => {
  before(() => {
    write('package.json', '{ "private": true }')
    write('work.mjs', work)
    const packed = run('npm', ['pack', '--pack-destination', project], root)
    assert.equal(packed.status, 0, packed.printed)
    const tarball = readdirSync(project).find((name) => name.endsWith('.tgz'))
    npm('install', `./${tarball}`)
  })
  after(() => rmSync(project, { recursive: true, force: true }))

  test('is imported by a module', () => {
    write('use.mjs', program(`import { fatal, openPosthorn, PosthornError } from 'posthorn'`))
    assert.deepEqual(run(process.execPath, ['use.mjs', 'esm']), { status: 0, printed: said })
  })

  test('is required by a CommonJS program', () => {
    write('use.cjs', program(`const { fatal, openPosthorn, PosthornError } = require('posthorn')`))
    assert.deepEqual(run(process.execPath, ['use.cjs', 'cjs']), { status: 0, printed: said })
  })

  test('offers the same names either way', () => {
    const names = `console.log(JSON.stringify(Object.keys(await import('posthorn')).sort()))`
    const required = `console.log(JSON.stringify(Object.keys(require('posthorn')).filter((name) => name !== '__esModule').sort()))`
    write('names.mjs', names)
    write('names.cjs', required)
    const imported = run(process.execPath, ['names.mjs'])
    assert.match(imported.printed, /"openPosthorn"/)
    assert.deepEqual(run(process.execPath, ['names.cjs']), imported)
  })

  test('brings types that a strict TypeScript project takes', () => {
    write(
      'use.mts',
      `import { openPosthorn, type HandledEvent } from 'posthorn'
export async function main(): Promise<string> {
  await using posthorn = await openPosthorn({ database: 'sqlite:./types.db' })
  posthorn.handle('order.*', (event: HandledEvent, { attempt }) => { attempt.toFixed() ; event.id.trim() })
  // @ts-expect-error: a type is a text
  await posthorn.send(1, {})
  return (await posthorn.send('order.created', { id: 1 }, { key: 'order-1' })).id
}
`,
    )
    const tsc = path.join(root, 'node_modules/typescript/bin/tsc')
    const flags = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'esnext', '--skipLibCheck', 'false']
    const types = ['--types', 'node', '--typeRoots', path.join(root, 'node_modules/@types')]
    assert.deepEqual(run(process.execPath, [tsc, ...flags, ...types, 'use.mts']), { status: 0, printed: '' })
  })

  test('has the command line', () => {
    const { status, printed } = run('npx', ['--no-install', 'posthorn', '--version'])
    assert.equal(status, 0, printed)
    assert.match(printed, /^\d+\.\d+\.\d+$/m)
  })

  test('says on a Node that is too old what it needs, as the command line does', () => {
    const home = path.join(project, 'old')
    mkdirSync(home)
    writeFileSync(path.join(home, 'package.json'), '{ "private": true }')
    const node = `node-${process.platform}-${process.arch}`
    npm('install', '--prefix', home, `${node}@${oldNode}`)
    const old = path.join(home, 'node_modules', node, 'bin/node')
    const sentence = nodeProblem(oldNode) ?? assert.fail()
    for (const file of ['use.mjs', 'use.cjs', 'node_modules/posthorn/dist/cli/main.js']) {
      const { status, printed } = run(old, [file, 'old'])
      assert.notEqual(status, 0)
      assert.ok(printed.includes(sentence), `${file}:\n${printed}`)
    }
  })
})
