import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { folderFor, type Server, serverFor } from './server.ts'

type Source = Readonly<{
  id: string
  name: string
  path: string
  secret: string
  bodyBytesMax: number
  type: string
  contentTypes: string[] | null
}>

const cleanups: (() => unknown)[] = []
const secret = 'a-secret-of-two-sides'
let server: Server

before(async () => {
  const t = { after: (fn: () => unknown) => void cleanups.unshift(fn) }
  server = await serverFor(t, folderFor(t))
})
after(async () => {
  for (const cleanup of cleanups) await cleanup()
})

const create = (name: string, flags: readonly string[]) => server.json<Source>(['sources', 'create', name, ...flags])

describe('posthorn sources', () => {
  test('makes a source that takes what its provider signs', async () => {
    const { path, type } = await create('gh', ['--provider', 'github', '--secret', secret])
    assert.deepEqual([path, type], ['/in/gh', 'github.{x-github-event}'])
    const signature = createHmac('sha256', secret).update('{}').digest('hex')
    const headers = { 'x-hub-signature-256': `sha256=${signature}`, 'x-github-event': 'ping' }
    const answer = await fetch(server.url + path, { method: 'POST', headers, body: '{}' })
    assert.equal(answer.status, 202)
    const events = await server.json<{ type: string }[]>(['events', 'list', '--type', 'github.ping'])
    assert.equal(events.length, 1)
  })

  test('reads a secret from stdin and prints it alone when asked', async () => {
    const flags = ['sources', 'create', 'piped', '--provider', 'stripe', '--secret', '-']
    await server.json(flags, { input: `${secret}\n` })
    assert.equal((await server.cli(['sources', 'secret', 'piped'])).stdout, `${secret}\n`)
    const rotated = await server.cli(['sources', 'rotate-secret', 'piped', '--secret', '-', '--keep-old-for', '1h'], {
      input: 'a-newer-secret',
    })
    assert.equal(rotated.stdout, 'a-newer-secret\n')
  })

  test('understands the sizes that people write', async () => {
    const flags = ['--provider', 'none', '--body-bytes-max', '512KiB']
    assert.equal((await create('sized', flags)).bodyBytesMax, 512 * 1024)
    const wrong = await server.cli(['sources', 'update', 'sized', '--body-bytes-max', 'large'])
    assert.equal(wrong.code, 2)
    assert.match(wrong.stderr, /must be a size from 1 to .*like 1048576, 512KiB or 1MiB/)
  })

  test('changes what is named and can be rid of it again', async () => {
    await create('changed', [
      '--provider',
      'none',
      '--content-types',
      'application/json,text/plain',
      '--key',
      '{x-key}',
    ])
    const update = (flags: readonly string[]) =>
      server.json<Source & { key: string | null }>(['sources', 'update', 'changed', ...flags])
    assert.deepEqual((await update(['--type', 'own.{$.type}'])).contentTypes, ['application/json', 'text/plain'])
    const { contentTypes, key, type } = await update(['--content-types', 'off', '--key', 'off'])
    assert.deepEqual([contentTypes, key, type], [null, null, 'own.{$.type}'])
    const { code, stderr } = await server.cli(['sources', 'update', 'changed'])
    assert.deepEqual([code, stderr.includes('Nothing to change')], [2, true])
  })

  test('lists, shows and deletes', async () => {
    const { id } = await create('short-lived', ['--provider', 'none', '--tenant', 'listed'])
    const { stdout } = await server.cli(['sources', 'list', '--tenant', 'listed'])
    assert.match(
      stdout,
      new RegExp(`^ID +PATH +PROVIDER +TYPE +TENANT\\n${id} +/in/short-lived +none +short-lived +listed\\n$`),
    )
    assert.equal((await server.json<Source>(['sources', 'show', 'short-lived'])).id, id)
    const unasked = await server.cli(['sources', 'delete', 'short-lived'])
    assert.deepEqual([unasked.code, unasked.stderr.includes('--yes')], [2, true])
    assert.equal((await server.cli(['sources', 'delete', 'short-lived', '--yes'])).code, 0)
    const gone = await server.cli(['sources', 'show', 'short-lived'])
    assert.deepEqual([gone.code, gone.stderr.includes('There is no source short-lived')], [1, true])
  })

  test('says what is wrong with a source', async () => {
    const { code, stderr } = await server.cli(['sources', 'create', 'not good', '--provider', 'hmac'])
    assert.equal(code, 1)
    for (const word of ['name', 'secret', 'hmac']) assert.match(stderr, new RegExp(`^  ${word}: `, 'm'))
  })
})
