import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { type HubFlags, hubFrom } from '../../src/cli/hub-flags.ts'
import type { Env } from '../../src/cli/terminal.ts'
import { posthorn } from './command.ts'
import { folderFor } from './server.ts'

const key = `phr_${'k'.repeat(43)}`
const edge = 'wss://edge.example'
const route = ['github=http://127.0.0.1:8123/hook']
const complete: HubFlags = { edge, key, route }

describe('the settings of a hub', () => {
  test('have defaults for all but the edge, the key and the routes', () => {
    assert.deepEqual(hubFrom(complete, {}), {
      edge,
      key,
      routes: new Map([['github', 'http://127.0.0.1:8123/hook']]),
      memoryFile: './data/posthorn-hub.db',
      ca: null,
      compress: false,
      concurrency: null,
      log: { level: 'info', format: 'auto' },
    })
  })

  test('come from the flag, else from the environment, else from the file', (t) => {
    const file = fileWith(t, {
      edge: 'wss://file.example',
      key: `phr_${'f'.repeat(43)}`,
      routes: { github: 'http://127.0.0.1:1/file', shop: 'http://127.0.0.1:2/file' },
      memory: 'file.db',
      compress: true,
      concurrency: 7,
    })
    const fromFile = hubFrom({ config: file }, {})
    assert.deepEqual([fromFile.edge, fromFile.memoryFile, fromFile.compress], ['wss://file.example', 'file.db', true])
    assert.deepEqual([fromFile.concurrency, fromFile.key], [7, `phr_${'f'.repeat(43)}`])
    const env = { POSTHORN_EDGE: 'wss://env.example', POSTHORN_RELAY_KEY: key }
    const fromEnv = hubFrom({ config: file }, env)
    assert.deepEqual([fromEnv.edge, fromEnv.key], ['wss://env.example', key])
    const fromFlags = hubFrom({ ...complete, config: file, memory: 'flag.db', concurrency: '9' }, env)
    assert.deepEqual([fromFlags.edge, fromFlags.memoryFile, fromFlags.concurrency], [edge, 'flag.db', 9])
    assert.deepEqual(Object.fromEntries(fromFlags.routes), {
      github: 'http://127.0.0.1:8123/hook',
      shop: 'http://127.0.0.1:2/file',
    })
  })

  test('take the key from a file, where no list of processes shows it', (t) => {
    const keyFile = path.join(folderFor(t), 'key')
    writeFileSync(keyFile, `${key}\n`)
    assert.equal(hubFrom({ edge, route, keyFile }, {}).key, key)
    assert.equal(hubFrom({ config: fileWith(t, { edge, keyFile, routes: { a: 'http://127.0.0.1/' } }) }, {}).key, key)
  })

  test('are no business of the settings of a server', () => {
    const env = { POSTHORN_CONFIG: '/nowhere/at/all.json', POSTHORN_CONCURRENCY: '3' }
    assert.equal(hubFrom(complete, env).concurrency, null)
  })

  test('are refused with every problem at once, where it is', (t) => {
    const config = fileWith(t, {
      ede: edge,
      edge: 'ftp://edge.example',
      key: 'phr_short',
      routes: { Upper: 'http://127.0.0.1/', shop: 'shop', odd: 1 },
      compress: 'yes',
      concurrency: '5',
      memory: 1,
      ca: '/nowhere/ca.pem',
    })
    const problem = problemOf({ config, route: ['github', 'a=http://127.0.0.1/', 'a=http://127.0.0.2/'] })
    for (const expected of [
      /ede is not a setting of the hub; did you mean edge\?/,
      /edge in the file must be the address of the edge, like wss:\/\/edge\.example/,
      /key in the file must be the key that `posthorn relays create` has shown/,
      /routes\.Upper in the file: the name must have/,
      /routes\.shop in the file must lead to an http/,
      /routes\.odd in the file must be a text/,
      /compress in the file must be true or false/,
      /concurrency in the file must be a number/,
      /memory in the file must be a text/,
      /\/nowhere\/ca\.pem cannot be read/,
      /--route github must read like/,
      /--route a is said twice/,
    ]) {
      assert.match(problem, expected)
    }
  })

  const wrong: readonly (readonly [HubFlags, Env, RegExp])[] = [
    [{ key, route }, {}, /no edge: say --edge/],
    [{ edge, route }, {}, /no key: say --key-file/],
    [{ edge, key }, {}, /no route: say --route/],
    [{ ...complete, edge: 'edge.example' }, {}, /--edge must be the address/],
    [{ ...complete, edge: 'wss://u:p@edge.example' }, {}, /--edge must have nothing but host, port and path/],
    [{ ...complete, route: ['a=http://u:p@x'] }, {}, /--route a must not carry a user name or password.*header/],
    [{ ...complete, key: 'phk_x' }, {}, /--key must be the key/],
    [{ ...complete, keyFile: '/nowhere' }, {}, /--key and --key-file exclude each other/],
    [{ edge, route, keyFile: '/nowhere' }, {}, /\/nowhere cannot be read/],
    [{ ...complete, concurrency: '0' }, {}, /--concurrency must be a whole number from 1/],
    [{ ...complete, ca: import.meta.filename }, {}, /must hold certificates in PEM/],
    [{ ...complete, config: '/nowhere.json' }, {}, /\/nowhere\.json cannot be read/],
    [{ ...complete, config: import.meta.filename }, {}, /must be a JSON object/],
    [
      { route },
      { POSTHORN_EDGE: 'x', POSTHORN_RELAY_KEY: 'y' },
      /POSTHORN_EDGE must be[\s\S]*POSTHORN_RELAY_KEY must be/,
    ],
    [complete, { POSTHORN_RELAY_KYE: key }, /POSTHORN_RELAY_KYE is not a setting; did you mean POSTHORN_RELAY_KEY\?/],
  ]
  for (const [flags, env, says] of wrong) {
    test(`are refused: ${says.source}`, () => assert.match(problemOf(flags, env), says))
  }
})

describe('wrong usage ends with exit code 2 and is done nothing with', () => {
  const calls: readonly (readonly [args: string[], says: RegExp])[] = [
    [['relay'], /the settings of the hub are not valid:[\s\S]*no route[\s\S]*no edge[\s\S]*no key/],
    [['relay', '--edgee', 'x'], /unknown option '--edgee'[\s\S]*--edge/],
    [['listen'], /required option '--forward <url>' not specified/],
    [['listen', '--forward', 'localhost:3000'], /--forward must lead to an http:\/\/ or https:\/\/ address/],
    [['listen', '--forward', 'http://me:pw@localhost:3000'], /--forward must not carry a user name or password/],
    [['listen', '--forward', 'http://localhost:3000', '-o', 'xml'], /Allowed choices are table, json, jsonl/],
  ]
  for (const [args, says] of calls) {
    test(`posthorn ${args.join(' ')}`, async () => {
      const { code, stdout, stderr } = await posthorn(args)
      assert.match(stderr, says)
      assert.deepEqual([code, stdout], [2, ''])
      assert.doesNotMatch(stderr, /\n {4}at /, 'no stack')
    })
  }

  test('a key is not shown when it is refused', async () => {
    const { code, stderr } = await posthorn(['relay', '--key', 'phr_not-quite-a-key'])
    assert.equal(code, 2)
    assert.doesNotMatch(stderr, /not-quite/)
  })
})

function fileWith(t: Parameters<typeof folderFor>[0], content: unknown): string {
  const file = path.join(folderFor(t), 'hub.json')
  writeFileSync(file, JSON.stringify(content))
  return file
}

function problemOf(flags: HubFlags, env: Env = {}): string {
  try {
    hubFrom(flags, env)
  } catch (error) {
    assert.ok(error instanceof Error && error.name === 'UsageError', String(error))
    return error.message
  }
  assert.fail('it was accepted')
}
