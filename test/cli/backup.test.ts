import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { posthorn } from './command.ts'
import { folderFor, serverFor, sinkFor } from './server.ts'

describe('posthorn backup', () => {
  test('copies while the server runs, and the copy goes on where it was: paused, then delivered again with the same id', async (t) => {
    const cwd = folderFor(t)
    const sink = await sinkFor(t, '503,200')
    const server = await serverFor(t, cwd)
    await server.json([
      'endpoints',
      'create',
      sink.url,
      '--retry',
      '{"strategy":"schedule","delays":["2s"],"maxAttempts":9}',
    ])
    const arrived = sink.next()
    await server.json(['send', 'order.created', '{"id":1}'])
    await arrived
    const target = path.join(cwd, 'copy.db')
    const backup = await posthorn(['backup', target, '--with-key', '-o', 'json'], { cwd })
    assert.equal(backup.code, 0, backup.stderr)
    const report = JSON.parse(backup.stdout)
    assert.deepEqual([report.events, report.deliveries, report.verified], [1, 1, true])
    assert.equal(report.keyFile, `${target}.key`)
    for (const file of [target, `${target}.key`]) assert.equal(statSync(file).mode & 0o077, 0, file)
    await server.running.stop('SIGKILL')
    const restored = folderFor(t)
    mkdirSync(path.join(restored, 'data'))
    copyFileSync(target, path.join(restored, 'data/posthorn.db'))
    copyFileSync(`${target}.key`, path.join(restored, 'data/posthorn.db.key'))
    const again = await serverFor(t, restored, ['--paused'])
    const [waiting] = await again.json<{ status: string }[]>(['deliveries', 'list'])
    assert.equal(waiting?.status, 'pending')
    const before = sink.received.length
    await again.json(['send', 'order.created', '{"id":2}'])
    assert.equal(sink.received.length, before)
    await again.cli(['dispatch', 'resume'])
    while (!sink.received.slice(before).some(({ webhookId }) => webhookId === sink.received[0]?.webhookId))
      await sink.next()
  })

  test('says that the key is needed too, overwrites nothing and works without a server', async (t) => {
    const cwd = folderFor(t)
    await (await serverFor(t, cwd)).running.stop()
    const first = await posthorn(['backup', 'copy.db'], { cwd })
    assert.deepEqual([first.code, first.stdout], [0, 'copy.db\n'])
    assert.match(first.stderr, /only with .*posthorn\.db\.key.*--with-key/)
    assert.equal(existsSync(path.join(cwd, 'copy.db.key')), false)
    const bytes = readFileSync(path.join(cwd, 'copy.db'))
    const second = await posthorn(['backup', 'copy.db', '--with-key'], { cwd })
    assert.equal(second.code, 1)
    assert.match(second.stderr, /exists already/)
    assert.deepEqual(readFileSync(path.join(cwd, 'copy.db')), bytes)
    assert.equal(existsSync(path.join(cwd, 'copy.db.key')), false)
  })

  test('refuses what is not there', async (t) => {
    const { code, stderr } = await posthorn(['backup', 'copy.db'], { cwd: folderFor(t) })
    assert.equal(code, 1)
    assert.match(stderr, /does not exist/)
  })

  test('names the folder that does not exist, and makes nothing', async (t) => {
    const cwd = folderFor(t)
    await (await serverFor(t, cwd)).running.stop()
    writeFileSync(path.join(cwd, 'file'), '')
    for (const folder of ['backups/today', 'file']) {
      const { code, stdout, stderr } = await posthorn(['backup', `${folder}/copy.db`, '--with-key'], { cwd })
      assert.deepEqual([code, stdout], [1, ''])
      const expected = `posthorn: ${path.join(cwd, folder)} is no folder; make it first, or name a file in one that exists.`
      assert.equal(stderr.trimEnd(), expected)
    }
    assert.equal(existsSync(path.join(cwd, 'backups')), false)
  })
})
