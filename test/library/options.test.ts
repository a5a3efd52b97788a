import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { configOf, type PosthornOptions } from '../../src/library/options.ts'
import { tempFolder } from '../support/sqlite.ts'

describe('the options of the library', () => {
  test('are all settings by the name that they have in the file, as text or as what they stand for', () => {
    const options: PosthornOptions = {
      keepDelivered: '2d',
      upkeepEvery: 5_000,
      paused: true,
      connectionsMax: 7,
      requestBytesMax: '2MiB',
      allowPrivate: ['10.0.0.0/8', '::1'],
      encryptionKey: new Uint8Array(32).fill(7),
      serve: { port: 0, host: '127.0.0.2', apiKey: 'k'.repeat(20), publicPort: 0, publicHost: '127.0.0.3' },
    }
    const config = configOf(options)
    assert.deepEqual([config.keepDeliveredMs, config.upkeepEveryMs, config.paused], [2 * 86_400_000, 5_000, true])
    assert.deepEqual([config.connectionsMax, config.requestBytesMax], [7, 2 * 1024 * 1024])
    assert.deepEqual(config.allowPrivate, ['10.0.0.0/8', '::1'])
    assert.deepEqual([config.port, config.host, config.publicPort], [0, '127.0.0.2', 0])
    assert.deepEqual([config.publicHost, config.apiKey], ['127.0.0.3', 'k'.repeat(20)])
  })

  test('open no private address by themselves: whose URLs the host passes on is not known here', () => {
    assert.deepEqual(configOf({}).allowPrivate, [])
    assert.deepEqual(configOf({ serve: { port: 0 } }).allowPrivate, [])
  })

  test('of serve are told by their whole name', () => {
    assert.throws(() => configOf({ serve: { prot: 1 } } as object), /serve\.prot is not an option; did you mean port\?/)
    assert.throws(() => configOf({ serve: { port: -1 } }), /\n {2}serve\.port must be a whole number/)
  })

  test('log warnings unless the file says otherwise', async (t) => {
    const folder = await tempFolder()
    const file = join(folder.path, 'posthorn.json')
    writeFileSync(file, '{"logLevel": "debug"}')
    assert.equal(configOf({}).logLevel, 'warn')
    process.env.POSTHORN_CONFIG = file
    t.after(async () => {
      delete process.env.POSTHORN_CONFIG
      await folder.remove()
    })
    assert.equal(configOf({}).logLevel, 'debug')
    assert.equal(configOf({ logLevel: 'error' }).logLevel, 'error')
  })
})
