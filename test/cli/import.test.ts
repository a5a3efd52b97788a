import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { aSchema, noPostgres, query } from '../support/postgres.ts'
import { hasScript, onTerminal, posthorn, start } from './command.ts'
import { folderFor, serverFor, sinkFor } from './server.ts'

const POSTHORN_ENCRYPTION_KEY = Buffer.alloc(32, 9).toString('base64')
const from = ['--from', 'sqlite:./data/posthorn.db']

type Sink = Awaited<ReturnType<typeof sinkFor>>

/** A stopped server's folder with events that wait in two lanes for a sink, and a schema to move them to. */
async function sceneFor(t: TestContext, sink: Sink) {
  const cwd = folderFor(t)
  const place = await aSchema()
  t.after(() => place.drop())
  const server = await serverFor(t, cwd, ['--paused'])
  const flags = ['--ordering', 'key', '--concurrency', '4']
  const endpoint = await server.json<{ id: string }>(['endpoints', 'create', sink.url, ...flags])
  const { stdout: secret } = await server.cli(['endpoints', 'secret', endpoint.id])
  const lines = Array.from({ length: 12 }, (_, at) =>
    JSON.stringify({ type: 'order.created', key: at % 2 === 0 ? 'a' : 'b', data: { at } }),
  )
  await server.cli(['send', '--batch'], { input: lines.join('\n') })
  const stop = () => server.running.stop()
  return { cwd, url: place.url, secret, stop, env: { POSTHORN_DATABASE_URL: place.url, POSTHORN_ENCRYPTION_KEY } }
}

describe('posthorn import', { skip: noPostgres() ?? false }, () => {
  test('moves a database, and a server on Postgres delivers what waited, in order, with the same secrets', async (t) => {
    const sink = await sinkFor(t)
    const { cwd, env, url, secret, stop } = await sceneFor(t, sink)
    const running = await posthorn(['import', ...from], { cwd, env })
    assert.equal(running.code, 1)
    assert.match(running.stderr, /owns .*posthorn\.db\. Stop that server first/)
    await stop()
    const counted = await posthorn(['import', ...from, '--dry-run', '-o', 'json'], { cwd, env })
    assert.equal(counted.code, 0, counted.stderr)
    assert.equal(JSON.parse(counted.stdout).status, 'dry_run')
    assert.match(counted.stderr, /nothing was changed/)
    assert.deepEqual(await query(url, `select 1 from pg_tables where schemaname = current_schema()`), [])
    const moved = await posthorn(['import', ...from, '-o', 'json'], { cwd, env })
    assert.equal(moved.code, 0, moved.stderr)
    const report = JSON.parse(moved.stdout)
    assert.deepEqual([report.status, report.verified, report.isResumed], ['done', true, false])
    const events = report.tables.find(({ records }: { records: string }) => records === 'events')
    assert.deepEqual([events.count, events.isSame, /^[0-9a-f]{16}$/.test(events.checksum)], [12, true, true])
    assert.match(moved.stderr, /POSTHORN_DATABASE_URL[\s\S]*POSTHORN_ENCRYPTION_KEY[\s\S]*keep \.\/data\/posthorn\.db/)
    assert.equal(sink.received.length, 0)

    const server = await serverFor(t, cwd, [], env)
    while (sink.received.length < 12) await sink.next()
    const { items } = (await (await fetch(`${server.url}/v1/deliveries?limit=50`)).json()) as {
      items: { key: string }[]
    }
    assert.equal(items.length, 12)
    for (const lane of [0, 1]) {
      const order = sink.received.map(({ body }) => JSON.parse(String(body)).data.at as number)
      assert.deepEqual(
        order.filter((at) => at % 2 === lane),
        [0, 2, 4, 6, 8, 10].map((at) => at + lane),
      )
    }
    const [endpoint] = await server.json<{ id: string }[]>(['endpoints', 'list'])
    assert.match(secret, /^whsec_/)
    assert.equal((await server.cli(['endpoints', 'secret', endpoint!.id])).stdout, secret)
    const again = await posthorn(['import', ...from], { cwd, env })
    assert.equal(again.code, 0, again.stderr)
    assert.match(again.stderr, /the import was done at .*nothing is left to do/)
  })

  test('a server refuses to start on half an import, and the next run goes on', async (t) => {
    const { cwd, env, url, stop } = await sceneFor(t, await sinkFor(t))
    await stop()
    assert.equal((await posthorn(['import', ...from], { cwd, env })).code, 0)
    // As if it had been killed before its end.
    await query(
      url,
      `update settings set value = convert_to(replace(convert_from(value, 'UTF8'), substring(convert_from(value, 'UTF8')
        from '"doneAt":\\d+'), '"doneAt":null'), 'UTF8') where name = 'import'`,
    )
    const refused = await start(['start', '--port', '0'], { cwd, env }).ended
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, /An import into this database is not finished: run posthorn import again/)
    const again = await posthorn(['import', ...from], { cwd, env })
    assert.equal(again.code, 0, again.stderr)
    assert.match(again.stdout, /^events +12 +[0-9a-f]{16} +yes$/m)
  })

  test('takes the key from a file or the environment, and says what is wrong with a key or an address', async (t) => {
    const { cwd, env, stop } = await sceneFor(t, await sinkFor(t))
    await stop()
    const keyFile = path.join(cwd, 'data/posthorn.db.key')
    writeFileSync(path.join(cwd, 'other.key'), POSTHORN_ENCRYPTION_KEY)
    writeFileSync(path.join(cwd, 'no.key'), 'no key')
    const dryRun = (flags: readonly string[], more = {}) =>
      posthorn(['import', ...from, '--dry-run', ...flags], { cwd, env: { ...env, ...more } })
    assert.equal((await dryRun(['--from-key', keyFile])).code, 0)
    assert.equal((await dryRun([], { POSTHORN_IMPORT_KEY: readFileSync(keyFile, 'utf8').trim() })).code, 0)
    for (const [flags, code, says] of [
      [['--from-key', 'other.key'], 1, /No key that fits was found .*--from-key/],
      [['--from-key', 'no.key'], 2, /no\.key holds must be 32 bytes|What no\.key holds must be 32 bytes/],
      [['--database', 'sqlite:./x.db'], 2, /Name the Postgres database/],
      [['--from', 'postgres://localhost/a'], 2, /--from must name a SQLite file/],
      [['--from', 'sqlite:./none.db'], 1, /none\.db does not exist/],
    ] as const) {
      const refused = await dryRun(flags)
      assert.equal(refused.code, code, refused.stderr)
      assert.match(refused.stderr, says)
    }
  })

  test('shows a bar on a terminal', { skip: hasScript ? false : 'needs script(1)' }, async (t) => {
    const { cwd, env, stop } = await sceneFor(t, await sinkFor(t))
    await stop()
    const file = `sqlite:${path.join(cwd, 'data/posthorn.db')}`
    const { code, stdout } = await onTerminal(['import', '--from', file], { env })
    assert.equal(code, 0, stdout)
    assert.match(stdout, /█.*records copied [\d,]+ of [\d,]+ \(100 %\)/)
    assert.match(stdout, /records verified/)
  })
})
