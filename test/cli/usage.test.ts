import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import { describe, test } from 'node:test'
import { configFlags } from '../../src/cli/config-flags.ts'
import { nodeProblem, supportedNode } from '../../src/cli/node-version.ts'
import { describeConfig, loadConfig } from '../../src/config.ts'
import { posthorn } from './command.ts'
import { folderFor } from './server.ts'

const manifest = JSON.parse(readFileSync(path.join(import.meta.dirname, '../../package.json'), 'utf8'))

describe('the command line', () => {
  test('says on stdout what it can do and what its exit codes mean', async () => {
    const { code, stdout, stderr } = await posthorn(['--help'])
    assert.equal(code, 0)
    assert.equal(stderr, '')
    for (const word of [
      'start',
      'send',
      'endpoints',
      'events',
      'deliveries',
      'sink',
      'migrate',
      'config',
      'Exit codes',
    ]) {
      assert.match(stdout, new RegExp(word))
    }
    assert.ok(!stdout.includes('\u001b'), 'no colour in a pipe')
  })

  test('has help for every command', async () => {
    const commands = [
      'start',
      'send',
      'endpoints create',
      'deliveries list',
      'events body',
      'sink',
      'migrate',
      'config show',
    ]
    for (const command of commands) {
      const { code, stdout } = await posthorn([...command.split(' '), '--help'])
      assert.equal(code, 0, command)
      assert.match(stdout, new RegExp(`Usage: posthorn ${command}`))
    }
  })

  test('tells its version', async () => {
    const { code, stdout } = await posthorn(['--version'])
    assert.deepEqual([code, stdout], [0, `${manifest.version}\n`])
  })

  const wrong: readonly (readonly [args: string[], says: RegExp])[] = [
    [['sned'], /unknown command 'sned'[\s\S]*Did you mean send/],
    [['start', '--prot', '1'], /unknown option '--prot'[\s\S]*--port/],
    [['start', 'now'], /too many arguments/],
    [['send'], /type is missing/],
    [['send', 'a.b', '{"id":'], /the data is not valid JSON/],
    [['send', 'a.b', '{}', '--batch'], /--batch reads stdin or --file/],
    [['send', 'a.b', '--batch', '--raw'], /exclude each other/],
    [['send', '--batch', '--key', 'k'], /each line is a whole event/],
    [['send', '--batch', '--wait'], /--wait is for a single event/],
    [['send', 'a.b', '{}', '--content-type', 'text/plain'], /--content-type is for --raw/],
    [['send', 'a.b', '{}', '--timeout', '5s'], /--timeout is for --wait/],
    [['send', 'a.b', '{}', '--wait', '--timeout', 'soon'], /A duration reads like/],
    [['send', 'a.b', '{}', '--header', 'nonsense'], /A header reads like x-team=a/],
    [['endpoints'], /Usage: posthorn endpoints/],
    [['endpoints', 'create'], /Say where to deliver: a URL, or --relay and --route/],
    [['endpoints', 'create', 'http://x', '--concurrency', '0'], /whole number from 1/],
    [['endpoints', 'create', 'http://x', '--rate-limit', '-1'], /tries a second/],
    [['endpoints', 'create', 'http://x', '--ordering', 'fifo'], /Allowed choices are none, key, endpoint/],
    [['endpoints', 'create', 'http://x', '--breaker', '{'], /not valid JSON/],
    [['endpoints', 'update', 'ep_1'], /Nothing to change/],
    [['deliveries', 'list', '--status', 'dead'], /Allowed choices are pending/],
    [['deliveries', 'list', '--since', 'yesterday'], /a duration like 2h or an instant/],
    [['deliveries', 'list', '--since', '5'], /a duration like 2h or an instant/],
    [['deliveries', 'list', '--limit', '0'], /whole number from 1/],
    [['deliveries', 'list', '-o', 'xml'], /Allowed choices are table, json, jsonl/],
  ]
  for (const [args, says] of wrong) {
    test(`refuses \`${args.join(' ')}\` with exit code 2`, async () => {
      const { code, stdout, stderr } = await posthorn(args)
      assert.match(stderr, says)
      assert.deepEqual([code, stdout], [2, ''])
      assert.doesNotMatch(stderr, /\n {4}at /, 'no stack')
    })
  }

  test('says where no server answers, and what to do', async () => {
    const POSTHORN_URL = `http://127.0.0.1:${await unusedPort()}`
    const { code, stdout, stderr } = await posthorn(['deliveries', 'list'], { env: { POSTHORN_URL } })
    assert.deepEqual([code, stdout], [1, ''])
    assert.equal(
      stderr,
      `posthorn: no Posthorn answers at ${POSTHORN_URL}; start one with \`npm start\` (or \`posthorn start\`), or set POSTHORN_URL\n`,
    )
  })

  test('shows the stack of an expected error only when asked for', async () => {
    const POSTHORN_URL = `http://127.0.0.1:${await unusedPort()}`
    const { stderr } = await posthorn(['events', 'list'], { env: { POSTHORN_URL, POSTHORN_LOG_LEVEL: 'debug' } })
    assert.match(stderr, /\n {4}at /)
  })

  test('refuses an address that is none', async () => {
    const { code, stderr } = await posthorn(['events', 'list'], { env: { POSTHORN_URL: 'localhost:4800' } })
    assert.equal(code, 2)
    assert.match(stderr, /POSTHORN_URL is not an http\(s\) address: localhost:4800/)
  })

  describe('with a configuration file', () => {
    const list = ['events', 'list']
    test('finds the server and the key in it', async (t) => {
      const seen: string[] = []
      const server = createHttpServer((request, response) => {
        seen.push(`${request.headers.authorization}`)
        response.end('{"items":[],"next":null}')
      }).listen(0, '127.0.0.1')
      t.after(() => server.close())
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      const config = path.join(folderFor(t), 'posthorn.json')
      writeFileSync(config, JSON.stringify({ url: `http://127.0.0.1:${port}`, apiKey: 'from-the-file', port: 1 }))
      const results = [
        await posthorn([...list, '--config', config]),
        await posthorn(list, { env: { POSTHORN_CONFIG: config } }),
        await posthorn([...list, '--config', config], { env: { POSTHORN_API_KEY: 'mine', POSTHORN_CONFIG: 'none' } }),
      ]
      assert.deepEqual(
        results.map(({ code }) => code),
        [0, 0, 0],
      )
      assert.deepEqual(seen, ['Bearer from-the-file', 'Bearer from-the-file', 'Bearer mine'])
    })

    for (const [text, says] of [
      ['{"url":', /posthorn\.json cannot be read as JSON/],
      ['[]', /posthorn\.json must be a JSON object/],
      ['{"url":4800}', /posthorn\.json: url must be a text/],
      ['{"url":"localhost:4800"}', /url in the file is not an http\(s\) address/],
    ] as const) {
      test(`refuses ${text} with exit code 2`, async (t) => {
        const config = path.join(folderFor(t), 'posthorn.json')
        writeFileSync(config, text)
        const { code, stderr } = await posthorn([...list, '--config', config])
        assert.equal(code, 2)
        assert.match(stderr, says)
      })
    }
  })

  test('a file that is not there is named', async () => {
    const { code, stderr } = await posthorn(['send', 'a.b', '--file', 'no-such-file.json'])
    assert.equal(code, 1)
    assert.match(stderr, /no-such-file\.json/)
    assert.doesNotMatch(stderr, /\n {4}at /)
  })
})

describe('the configuration', () => {
  test('names every wrong value at once, with exit code 2', async () => {
    const env = { POSTHORN_LOG_FORMAT: 'xml', POSTHORN_PROT: '1' }
    const { code, stdout, stderr } = await posthorn(['start', '--port', '99999', '--log-level', 'loud'], { env })
    assert.deepEqual([code, stdout], [2, ''])
    for (const name of ['--port', '--log-level', 'POSTHORN_LOG_FORMAT', 'POSTHORN_PROT'])
      assert.match(stderr, new RegExp(name))
    assert.doesNotMatch(stderr, /\n {4}at /)
  })

  test('`config show` tells where each value comes from and keeps secrets', async () => {
    const env = { POSTHORN_HOST: '::1', POSTHORN_API_KEY: 'a-key-that-nobody-may-see' }
    const { code, stdout, stderr } = await posthorn(['config', 'show', '--port', '5000', '-o', 'json'], { env })
    assert.deepEqual([code, stderr.split('\n').length], [0, 2])
    const rows: { name: string; value: string; origin: string }[] = JSON.parse(stdout)
    const origin = (name: string) => rows.find((row) => row.name === name)?.origin
    assert.deepEqual(['port', 'host', 'logLevel'].map(origin), ['flag', 'env', 'default'])
    assert.doesNotMatch(stdout, /nobody-may-see/)
  })

  test('`--paused` alone is a yes', async () => {
    const { stdout } = await posthorn(['config', 'show', '--paused', '-o', 'jsonl'])
    assert.match(stdout, /"name":"paused".*"value":"yes","origin":"flag"/)
  })

  test('`config show` prints a table by default, a row for each setting', async () => {
    const { stdout } = await posthorn(['config', 'show'])
    const [header, ...rows] = stdout.trimEnd().split('\n')
    assert.match(header!, /^NAME +VALUE +ORIGIN +ENVIRONMENT$/)
    assert.equal(rows.length, describeConfig(loadConfig({ flags: {}, env: {} })).length)
  })

  test('every setting has its flag, except keys and what only clients use', () => {
    const secrets = ['apiKey', 'encryptionKey', 'importKey', 'url', 'redisUrl', 'edge', 'relayKey', 'kafkaSettings']
    const settings = describeConfig(loadConfig({ flags: {}, env: {} })).map(({ name }) => name as string)
    const flags = configFlags.map(([flag]) =>
      flag
        .split(' ')[0]!
        .slice(2)
        .replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase()),
    )
    assert.deepEqual(flags.toSorted(), settings.filter((name) => !secrets.includes(name)).toSorted())
  })
})

describe('the version of Node', () => {
  test('is the one in package.json', () => assert.equal(supportedNode, manifest.engines.node))

  for (const version of ['24.16.0', '24.99.1', '26.1.0', '26.10.0', '27.0.0']) {
    test(`${version} will do`, () => assert.equal(nodeProblem(version), null))
  }
  for (const version of ['18.20.8', '22.22.0', '24.15.9', '25.0.0', '25.9.0', '26.0.0']) {
    test(`${version} is refused with what is needed`, () => assert.match(nodeProblem(version) ?? '', /needs Node >=24/))
  }

  test('is checked before anything else', () => {
    const main = path.join(import.meta.dirname, '../../src/cli/main.ts')
    const old = `data:text/javascript,Object.defineProperty(process.versions,'node',{value:'22.22.0'})`
    const { status, stderr } = spawnSync(process.execPath, ['--import', old, main, '--help'], { encoding: 'utf8' })
    assert.equal(status, 1)
    assert.match(stderr, /^posthorn: Posthorn needs Node .* this is Node 22\.22\.0/)
  })
})

async function unusedPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

test('credentials in POSTHORN_URL are never printed', async () => {
  const env = { POSTHORN_URL: 'http://lovelace:s3cret@127.0.0.1:9' }
  for (const args of [['events', 'list'], ['config', 'show'], ['config', 'show', '-o', 'json'], ['doctor']]) {
    const { stdout, stderr } = await posthorn(args, { env })
    assert.doesNotMatch(`${stdout}${stderr}`, /s3cret|lovelace/, args.join(' '))
    assert.match(`${stdout}${stderr}`, /•••@127\.0\.0\.1:9/, args.join(' '))
  }
})
