import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { posthorn, start } from './command.ts'
import { folderFor, serverFor, sinkFor } from './server.ts'

describe('posthorn keys', () => {
  test('makes a key that works, lists it without showing it, and deletes it', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const made = await server.cli(['keys', 'create', '--role', 'send', '--tenant', 'acme', '--name', 'shop'])
    assert.equal(made.code, 0)
    const key = made.stdout.trim()
    assert.match(key, /^phk_[\w-]{43}$/)
    const sent = await server.cli(['send', 'order.created', '{}'], { env: { POSTHORN_API_KEY: key } })
    assert.equal(sent.code, 0, sent.stderr)
    const refused = await server.cli(['events', 'list'], { env: { POSTHORN_API_KEY: key } })
    assert.deepEqual([refused.code, /role read/.test(refused.stderr)], [1, true])
    const [listed] = await server.json<{ id: string; tenant: string; name: string }[]>(['keys', 'list'])
    assert.deepEqual([listed?.tenant, listed?.name], ['acme', 'shop'])
    assert.ok(!JSON.stringify(listed).includes(key))
    assert.equal((await server.cli(['keys', 'delete', listed!.id])).code, 2, 'nobody was there to be asked')
    assert.equal((await server.cli(['keys', 'delete', listed!.id, '--yes'])).code, 0)
    assert.equal((await server.cli(['send', 'a', '{}'], { env: { POSTHORN_API_KEY: key } })).code, 1)
  })

  test('needs a role', async () => {
    const { code, stderr } = await posthorn(['keys', 'create'])
    assert.equal(code, 2)
    assert.match(stderr, /--role/)
  })
})

describe('posthorn tail', () => {
  test('prints a line for each event and attempt of the types asked for, and ends cleanly with Ctrl-C', async (t) => {
    const server = await serverFor(t, folderFor(t))
    const sink = await sinkFor(t)
    await server.json(['endpoints', 'create', sink.url])
    const tail = start(['tail', '--type', 'order.*'], { env: { POSTHORN_URL: server.url } })
    t.after(() => tail.stop('SIGKILL'))
    await tail.line(/^listening to/)
    await server.cli(['send', 'other', '{}'])
    await server.cli(['send', 'order.created', '{}'])
    await tail.line(/event\.accepted +order\.created +evt_\w+ +1 delivery$/)
    await tail.line(/attempt\.settled +order\.created +dlv_\w+ +ep_\w+ +#1 +delivered +200 +\d+ ms$/)
    const { code, stdout } = await tail.stop('SIGINT')
    assert.equal(code, 0)
    assert.doesNotMatch(stdout, /other/)
  })

  test('prints JSON lines, and takes the line up again after the server was away', async (t) => {
    const folder = folderFor(t)
    const server = await serverFor(t, folder)
    const { port } = new URL(server.url)
    const tail = start(['tail', '-o', 'jsonl', '--kinds', 'event.accepted'], { env: { POSTHORN_URL: server.url } })
    t.after(() => tail.stop('SIGKILL'))
    await tail.line(/^listening to/)
    await server.running.stop('SIGTERM')
    await tail.line(/broke; trying again/)
    const again = await serverFor(t, folder, ['--port', port])
    // Nothing is kept for a listener that was away, so events are sent until it is back.
    let heard: string | null = null
    const first = tail.line(/"kind":"event.accepted"/).then((line) => {
      heard = line
    })
    while (heard === null) await again.cli(['send', 'a', '{}'])
    await first
    assert.equal(JSON.parse(heard).type, 'a')
    assert.equal((await tail.stop('SIGINT')).code, 0)
  })

  test('says when there is no server, or no such kind', async (t) => {
    const nobody = await posthorn(['tail'], { env: { POSTHORN_URL: 'http://127.0.0.1:9' } })
    assert.equal(nobody.code, 1)
    assert.match(nobody.stderr, /no Posthorn answers/)
    const server = await serverFor(t, folderFor(t))
    const { code, stderr } = await server.cli(['tail', '--kinds', 'everything'])
    assert.equal(code, 1)
    assert.match(stderr, /must be some of event\.accepted/)
  })
})
