import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { posthorn, type Running, start } from './command.ts'
import { folderFor, type Server, serverFor } from './server.ts'

/** A folder with a module of handlers in it, and the server that runs them. */
async function scene(t: TestContext, modules: Record<string, string>, flags: readonly string[] = []) {
  const cwd = folderFor(t)
  const write = (name: string, text: string) => writeFileSync(path.join(cwd, name), text)
  for (const [name, text] of Object.entries(modules)) write(name, text)
  const open = () => serverFor(t, cwd, ['--handlers', './handlers.ts', ...flags])
  return { cwd, write, open }
}

const says = (word: string) => `export default { 'order.*': async (event: { data: unknown }) => {
  console.log('${word}', JSON.stringify(event.data))
} }`

async function send(server: Server, data: string): Promise<void> {
  const { code, stderr } = await server.cli(['send', 'order.created', data])
  assert.equal(code, 0, stderr)
}

describe('posthorn start --handlers', () => {
  test('runs the handlers of a module inside of the server', async (t) => {
    const { open } = await scene(t, { 'handlers.ts': says('handled') })
    const server = await open()
    await server.running.line(/^handlers: order\.\*$/)
    await send(server, '{"id":1}')
    await server.running.line(/^handled \{"id":1\}$/)
    const items = await server.json<{ id: string; kind: string; handler: string }[]>(['endpoints', 'list'])
    assert.deepEqual([items[0]?.kind, items[0]?.handler], ['handler', 'order.*'])
    const unsure = await server.cli(['endpoints', 'delete', items[0]!.id])
    assert.match(unsure.stderr, /delete ep_\w+ \(order\.\*\)/)
  })

  test('a handler that prints to a pipe that nobody reads any more does not end the server', async (t) => {
    const { open } = await scene(t, { 'handlers.ts': says('handled') })
    const server = await open()
    await server.running.line(/^handlers: order\.\*$/)
    server.running.child.stdout.destroy()
    for (const data of ['1', '2', '3']) {
      const { code, stdout } = await server.cli(['send', 'order.created', data, '--wait'])
      assert.equal(code, 0, stdout)
    }
    assert.equal((await server.running.stop('SIGHUP')).code, 0)
  })

  test('a terminal that is closed three times, with npm start on it, makes no dead letter', async (t) => {
    const cwd = folderFor(t)
    const hangs = `export default { a: (_: unknown, { signal }: { signal: AbortSignal }) => {
      console.log('running')
      return process.env.HANGS ? new Promise((end) => signal.addEventListener('abort', end)) : undefined
    } }`
    writeFileSync(path.join(cwd, 'handlers.ts'), hangs)
    const flags = ['cli', 'start', '--port', '0', '--handlers', './handlers.ts', '--grace', '1s']
    const program = path.join(import.meta.dirname, '../../scripts/bootstrap.mjs')
    const open = (env: Record<string, string>): Running => {
      const running = start(flags, { cwd, env, program })
      t.after(() => running.stop('SIGKILL'))
      return running
    }
    for (let times = 0; times < 3; times += 1) {
      const running = open({ HANGS: 'yes' })
      const url = /http:\S+/.exec(await running.line(/^Posthorn listens on/))?.[0] ?? ''
      if (times === 0) assert.equal((await posthorn(['send', 'a', '{}'], { env: { POSTHORN_URL: url } })).code, 0)
      await running.line(/^running/)
      running.child.kill('SIGHUP')
      await running.line(/SIGHUP: stopping/)
      running.child.kill('SIGHUP')
      assert.equal((await running.ended).code, 0)
    }
    const last = open({})
    const url = /http:\S+/.exec(await last.line(/^Posthorn listens on/))?.[0] ?? ''
    await last.line(/^running/)
    await last.line(/delivered/)
    const { stdout } = await posthorn(['deliveries', 'list', '-o', 'json'], { env: { POSTHORN_URL: url } })
    assert.deepEqual([JSON.parse(stdout)[0].status, JSON.parse(stdout)[0].reason], ['delivered', null])
    await last.stop()
  })

  const broken: readonly (readonly [string, string, RegExp])[] = [
    [
      'cannot be parsed',
      'export defalt {}',
      /^posthorn: \.\/handlers\.ts cannot be loaded: SyntaxError.*handlers\.ts:1/m,
    ],
    ['throws', '(null as any).x; export default {}', /cannot be loaded: TypeError: .*null.*handlers\.ts:1:/],
    [
      'exports nothing by default',
      'export const handlers = {}',
      /\.\/handlers\.ts has no default export; write export/,
    ],
    ['exports no object', 'export default 3', /\.\/handlers\.ts: export default cannot be used: .*must be an object/],
    [
      'has a wrong option',
      `export default { 'order.*': { handler: () => {}, retry: { preset: 'webhok' } } }`,
      /\.\/handlers\.ts: export default\["order\.\*"\] cannot be used: retry\.preset must be one of/,
    ],
    [
      'names a module that is not there',
      `export default { a: { module: './a.ts', engine: 'process' } }`,
      /\["a"\] cannot be used: module is not found at .*a\.ts\./,
    ],
    [
      'names a module that cannot be loaded',
      `export default { a: { module: './handlers.ts', export: 'other', engine: 'process' } }`,
      /\["a"\] cannot be used: module cannot be loaded: .* has no function as its export "other"/,
    ],
    [
      'gives a module and a function',
      `export default { a: { module: './handlers.ts', handler: () => {} } }`,
      /\["a"\] cannot be used: module is not an option of a handler/,
    ],
  ]
  for (const [what, text, expected] of broken) {
    test(`refuses a module that ${what}, with exit code 2`, async (t) => {
      const { cwd } = await scene(t, { 'handlers.ts': text })
      const { code, stderr } = await posthorn(['start', '--port', '0', '--handlers', './handlers.ts'], { cwd })
      assert.match(stderr, expected)
      assert.equal(code, 2)
      assert.doesNotMatch(stderr, /\n {4}at /)
    })
  }

  test('refuses a file that is not there, and --watch without handlers', async (t) => {
    const cwd = folderFor(t)
    const missing = await posthorn(['start', '--port', '0', '--handlers', './nowhere.ts'], { cwd })
    assert.deepEqual([missing.code, /There is no file \.\/nowhere\.ts/.test(missing.stderr)], [2, true])
    const watching = await posthorn(['start', '--port', '0', '--watch'], { cwd })
    assert.deepEqual([watching.code, /--watch needs --handlers/.test(watching.stderr)], [2, true])
  })

  test('says at the start which handlers are missing; what is for them waits', async (t) => {
    const { open, write } = await scene(t, { 'handlers.ts': says('old') })
    const first = await open()
    await first.running.stop()
    write('handlers.ts', `export default { 'invoice.*': () => {} }`)
    const second = await open()
    await second.running.line(/^the handler order\.\* is not registered: its deliveries wait/)
    await send(second, '{"id":1}')
    const items = await second.json<{ status: string; attempts: number }[]>(['deliveries', 'list'])
    assert.deepEqual(
      items.map(({ status, attempts }) => [status, attempts]),
      [['pending', 0]],
    )
    await second.running.stop()
    write('handlers.ts', says('back'))
    const third = await open()
    await third.running.line(/^back \{"id":1\}$/)
  })
})

describe('posthorn start --watch', () => {
  test('takes up a new version of the module and of what it imports', async (t) => {
    const word = (text: string) => `export const word: string = '${text}'`
    const handlers = `import { word } from './word.ts'
      export default { 'order.*': () => console.log(word) }`
    const { open, write } = await scene(t, { 'handlers.ts': handlers, 'word.ts': word('first') }, ['--watch'])
    const server = await open()
    await send(server, '1')
    await server.running.line(/^first$/)
    write('word.ts', word('second'))
    await server.running.line(/is loaded again/)
    await send(server, '2')
    await server.running.line(/^second$/)
  })

  for (const engine of ['async', 'process']) {
    test(`takes up a new version of a module that a handler names, and of its imports: ${engine}`, async (t) => {
      const modules = {
        'handlers.ts': `export default { a: { module: './work.ts', engine: '${engine}', retry: { preset: 'processing', maxAttempts: 1 } } }`,
        'work.ts': `import { word } from './word.ts'\nexport default () => { throw new Error(word) }`,
        'word.ts': `export const word: string = 'first'`,
      }
      const { open, write } = await scene(t, modules, ['--watch'])
      const server = await open()
      const lastError = async () => {
        await server.cli(['send', 'a', '1', '--wait'])
        const items = await server.json<{ lastError: string }[]>(['deliveries', 'list', '--limit', '1'])
        return items[0]?.lastError
      }
      const until = (word: string) =>
        eventually(`it fails with ${word}`, async () => ((await lastError()) === word ? word : null))
      assert.equal(await lastError(), 'first')
      write('word.ts', `export const word: string = 'second'`)
      await until('second')
      write('work.ts', 'export defalt 1')
      await server.running.line(/^the old handlers go on, because .*\["a"\] cannot be used: module cannot be loaded/)
      assert.equal(await lastError(), 'second')
      write('work.ts', `export default () => { throw new Error('third') }`)
      await until('third')
    })
  }

  test('keeps the old version while the new one is broken, and says why', async (t) => {
    const { open, write } = await scene(t, { 'handlers.ts': says('good') }, ['--watch'])
    const server = await open()
    write('handlers.ts', 'export defalt {}')
    await server.running.line(/^the old handlers go on, because \.\/handlers\.ts cannot be loaded: SyntaxError/)
    await send(server, '1')
    await server.running.line(/^good 1$/)
    write('handlers.ts', `export default { 'order.*': 'text' }`)
    await server.running.line(/^the old handlers go on, because .*export default\["order\.\*"\]/)
    await send(server, '2')
    await server.running.line(/^good 2$/)
    write('handlers.ts', says('better'))
    await server.running.line(/is loaded again/)
    await send(server, '3')
    await server.running.line(/^better 3$/)
  })

  test('lets what runs finish with the old code', async (t) => {
    const slow = `export default { 'order.*': async () => {
      console.log('begun with the old')
      await new Promise((resolve) => process.once('SIGUSR2', resolve))
      console.log('ended with the old')
    } }`
    const { open, write } = await scene(t, { 'handlers.ts': slow }, ['--watch'])
    const server = await open()
    await send(server, '1')
    await server.running.line(/^begun with the old$/)
    write('handlers.ts', `export default { 'other.*': () => {} }`)
    await server.running.line(/^the handler order\.\* is not registered/)
    server.running.child.kill('SIGUSR2')
    await server.running.line(/^ended with the old$/)
  })
})
