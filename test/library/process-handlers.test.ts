import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { type HandleOptions, type Posthorn, PosthornError } from '../../src/index.ts'
import { eventually } from '../support/eventually.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { folderFor } from './scene.ts'

const inProcess: HandleOptions = { engine: 'process', workers: 1 }

/** Posts which process it runs in. */
const tells = `export default async ({ data }) => {
  await fetch(data.to, { method: 'POST', body: String(process.pid) })
}
export const twice = async (event) => { for (const _ of [1, 2]) await (await import(import.meta.url)).default(event) }`

/** Modules by their name, and a Posthorn beside them. */
async function scene(t: TestContext, modules: Readonly<Record<string, string>>) {
  const folder = await folderFor(t)
  for (const [name, text] of Object.entries(modules)) writeFileSync(join(folder.path, name), text)
  const urlOf = (name: string) => pathToFileURL(join(folder.path, name))
  const reports = await openScriptedEndpoint([{}])
  t.after(() => reports.close())
  const pid = async () => Number((await reports.next()).body.toString())
  return { posthorn: await folder.open(), open: folder.open, urlOf, to: reports.url, pid }
}

async function deadLetter(posthorn: Posthorn) {
  return eventually('a dead letter', async () => {
    const { items } = await posthorn.deliveries.list({ status: ['failed'] })
    return items[0] === undefined ? null : posthorn.deliveries.get(items[0].id)
  })
}

const isInvalid = (message: RegExp) => (error: unknown) =>
  error instanceof PosthornError && error.code === 'invalid' && message.test(error.message)

describe('a handler that is a module', () => {
  test('runs in a process of its own, one after another in the same, and no longer than it is registered', async (t) => {
    const { posthorn, urlOf, to, pid } = await scene(t, { 'tells.mjs': tells })
    const handle = posthorn.handle('a', urlOf('tells.mjs'), inProcess)
    await posthorn.sendBatch([1, 2].map(() => ({ type: 'a', data: { to } })))
    const [first, second] = [await pid(), await pid()]
    assert.notEqual(first, process.pid)
    assert.equal(second, first)
    await handle.stop()
    await eventually('the worker ends', async () => {
      try {
        return process.kill(first, 0) ? null : true
      } catch {
        return true
      }
    })
  })

  test('runs in this process with the engine async, by the name of its export', async (t) => {
    const { posthorn, urlOf, to, pid } = await scene(t, { 'tells.mjs': tells })
    posthorn.handle('a', urlOf('tells.mjs'), { export: 'twice' })
    await posthorn.send('a', { to })
    assert.deepEqual([await pid(), await pid()], [process.pid, process.pid])
  })

  test('can be in the table of handlers', async (t) => {
    const { open, posthorn, urlOf, to, pid } = await scene(t, { 'tells.mjs': tells })
    await posthorn.close()
    const other = await open({ handlers: { a: { module: urlOf('tells.mjs'), ...inProcess } } })
    await other.send('a', { to })
    assert.notEqual(await pid(), process.pid)
  })

  test('that ends its process is a dead letter that says how, and the others go on', async (t) => {
    const kills = `export default () => { console.error('FATAL ERROR: no more\\n'); process.exit(3) }`
    const { posthorn, urlOf, to, pid } = await scene(t, { 'tells.mjs': tells, 'kills.mjs': kills })
    const retry = { strategy: 'schedule', delays: ['1ms'] } as const
    posthorn.handle('b', urlOf('kills.mjs'), { ...inProcess, retry })
    posthorn.handle('a', urlOf('tells.mjs'), inProcess)
    await posthorn.send('b', {})
    await posthorn.send('a', { to })
    assert.notEqual(await pid(), process.pid)
    const { reason, lastError, attempts } = await deadLetter(posthorn)
    assert.deepEqual(
      [reason, lastError, attempts],
      ['exhausted', 'the worker exited with code 3: FATAL ERROR: no more', 2],
    )
  })

  test('that throws outside of its promise shows the error and its stack', async (t) => {
    const throws = `export default () => { setTimeout(() => { null.x }); return new Promise(() => {}) }`
    const { posthorn, urlOf } = await scene(t, { 'throws.mjs': throws })
    posthorn.handle('a', urlOf('throws.mjs'), {
      ...inProcess,
      retry: { preset: 'processing', maxAttempts: 1 },
    })
    await posthorn.send('a', {})
    const { attemptLog: log } = await deadLetter(posthorn)
    assert.equal(log[0]?.errorClass, 'TypeError')
    assert.match(log[0]?.error ?? '', /^the worker ended with an uncaught error: TypeError: /)
    assert.match(log[0]?.stack ?? '', /throws\.mjs/)
  })
})

describe('a handler that is a module is refused', () => {
  test('at once when there is no such file, or an option does not fit, by the name of the field', async (t) => {
    const { posthorn, urlOf } = await scene(t, { 'a.mjs': '' })
    const refused = (handler: unknown, options: object, message: RegExp) =>
      assert.throws(() => posthorn.handle('a', handler as URL, options as HandleOptions), isInvalid(message))
    refused(urlOf('missing.mjs'), inProcess, /module is not found at \/.*missing\.mjs\.$/)
    refused(new URL('https://example.com/a.js'), {}, /module must be the URL of a file/)
    refused('./a.mjs', {}, /module must be the URL of a file/)
    refused(() => {}, { engine: 'process' }, /engine 'process' runs modules and not functions/)
    refused(() => {}, { export: 'a' }, /export can only be given with a module/)
    refused(urlOf('a.mjs'), { workers: 2 }, /workers can only be given with engine: 'process'/)
    for (const workers of [0, 1.5, 65]) {
      refused(urlOf('a.mjs'), { engine: 'process', workers }, /workers must be a whole number from 1 to 64/)
    }
    assert.deepEqual(await posthorn.endpoints.list(), [])
  })

  for (const engine of ['async', 'process'] as const) {
    test(`before anything is sent when it cannot be used, with the engine ${engine}`, async (t) => {
      const modules = { 'none.mjs': 'export const other = 1', 'broken.mjs': 'throw new Error("no database")' }
      const { posthorn, urlOf } = await scene(t, modules)
      const none = posthorn.handle('a', urlOf('none.mjs'), { engine })
      const noFunction = /module cannot be loaded: file:.*none\.mjs has no function as its export "default"\.$/
      await assert.rejects(none.ready, isInvalid(noFunction))
      await assert.rejects(posthorn.send('a', 1), isInvalid(noFunction))
      await none.stop()
      const broken = posthorn.handle('a', urlOf('broken.mjs'), { engine })
      await assert.rejects(broken.ready, isInvalid(/module cannot be loaded: no database\.$/))
      await broken.stop()
      assert.deepEqual(await posthorn.endpoints.list(), [])
    })
  }
})
