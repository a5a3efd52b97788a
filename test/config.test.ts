import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { type Config, configurationPage, describeConfig, loadConfig } from '../src/config.ts'
import { PosthornError } from '../src/core/errors.ts'

const dayMs = 86_400_000

describe('the configuration', () => {
  test('has a default for everything', () => {
    const { given: _, ...config } = load({})
    assert.deepEqual(config, {
      database: { kind: 'sqlite', path: './data/posthorn.db' },
      redisUrl: null,
      host: '127.0.0.1',
      port: 4800,
      apiKey: null,
      url: 'http://127.0.0.1:4800',
      dlqTopicSuffix: '.dlq',
      kafkaBrokers: null,
      kafkaClient: null,
      kafkaSettings: null,
      edge: null,
      relayKey: null,
      allowPrivate: ['127.0.0.0/8', '::1'],
      encryptionKey: null,
      importKey: null,
      logLevel: 'info',
      logFormat: 'auto',
      concurrency: 1000,
      eventBytesMax: 1_048_576,
      batchBytesMax: 16_777_216,
      intakeBytesMax: 67_108_864,
      memoryBytesMax: 67_108_864,
      requestBytesMax: 67_108_864,
      connectionsMax: 10_000,
      hopsMax: 10,
      tenantKeysMax: 1_000,
      tenantRelaysMax: 1_000,
      tenantEndpointsMax: 10_000,
      tenantSourcesMax: 1_000,
      tenantReplaysMax: 20,
      tenantStreamsMax: 20,
      tenantTestsMax: 5,
      publicPort: null,
      publicHost: '0.0.0.0',
      handlers: null,
      paused: false,
      upkeepEveryMs: 3_600_000,
      upkeepAfterMs: 600_000,
      keepDeliveredMs: 7 * dayMs,
      keepFailedMs: 7 * dayMs,
      keepDeadLetterMs: 14 * dayMs,
      keepEventMs: 7 * dayMs,
      keepReplayMs: 30 * dayMs,
      laneStuckMs: 900_000,
      relayAwayMs: 300_000,
      backlogMax: 100_000,
      metricsEndpointsMax: 100,
      graceMs: 10_000,
      retryBaseDelayMs: 5_000,
      retryMaxDelayMs: 300_000,
      maxAttempts: 5,
    })
  })

  test('takes a flag over the environment over the file over the default, and knows which it was', () => {
    const readFile = () => '{"port": 3, "host": "127.0.0.3", "grace": "3s", "allowPrivate": ["10.0.0.0/8", "::1"]}'
    const config = loadConfig({
      flags: { port: '1', config: 'posthorn.json', output: 'json' },
      env: { POSTHORN_PORT: '2', POSTHORN_HOST: '127.0.0.2' },
      readFile,
    })
    assert.deepEqual([config.port, config.host, config.graceMs, config.maxAttempts], [1, '127.0.0.2', 3_000, 5])
    assert.deepEqual(config.allowPrivate, ['10.0.0.0/8', '::1'])
    const origins = Object.fromEntries(describeConfig(config).map(({ name, origin }) => [name, origin]))
    assert.deepEqual(
      [origins.port, origins.host, origins.grace, origins.maxAttempts],
      ['flag', 'env', 'file', 'default'],
    )
  })

  test('finds its file by POSTHORN_CONFIG, too', () => {
    const config = loadConfig({
      flags: {},
      env: { POSTHORN_CONFIG: 'a.json' },
      readFile: (path) => `{"port": ${path.length}}`,
    })
    assert.equal(config.port, 6)
  })

  test('opens loopback to endpoints where no key is set, and nothing else', () => {
    const apiKey = { POSTHORN_API_KEY: 'k'.repeat(16) }
    const shownBy = (config: Config) => describeConfig(config).find(({ name }) => name === 'allowPrivate')
    const open = load({})
    assert.deepEqual(open.allowPrivate, ['127.0.0.0/8', '::1'])
    assert.partialDeepStrictEqual(shownBy(open), { value: '127.0.0.0/8,::1', origin: 'default' })
    const closed = load(apiKey)
    assert.deepEqual(closed.allowPrivate, [])
    assert.partialDeepStrictEqual(shownBy(closed), { value: '', origin: 'default' })
    const keyed = { flags: { config: 'x.json' }, env: {}, readFile: () => JSON.stringify({ apiKey: 'k'.repeat(16) }) }
    assert.deepEqual(loadConfig(keyed).allowPrivate, [], 'a key in the file is a key')
  })

  test('lets POSTHORN_ALLOW_PRIVATE replace what is open without a key', () => {
    assert.deepEqual(load({ POSTHORN_ALLOW_PRIVATE: '10.0.0.0/8' }).allowPrivate, ['10.0.0.0/8'])
    assert.deepEqual(load({ POSTHORN_ALLOW_PRIVATE: 'none' }).allowPrivate, [])
    assert.deepEqual(loadConfig({ flags: { allowPrivate: '' }, env: {} }).allowPrivate, [])
    assert.match(
      problemOf(() => load({ POSTHORN_ALLOW_PRIVATE: 'none,10.0.0.0/8' })),
      /none is neither/,
    )
  })

  test('cannot be changed', () => {
    assert.throws(() => Object.assign(load({}), { port: 1 }), TypeError)
  })

  test('never shows a secret', () => {
    const key = 'k'.repeat(20)
    const encryption = Buffer.alloc(32, 7).toString('base64')
    const config = load({ POSTHORN_API_KEY: key, POSTHORN_ENCRYPTION_KEY: encryption })
    const shown = JSON.stringify(describeConfig(config))
    assert.ok(shown.includes('•••') && !shown.includes(key) && !shown.includes(encryption))
  })

  test('names every problem at once, where it is', () => {
    const env = { POSTHORN_PORT: 'http', MAX_ATTEMPTS: '0', POSTHORN_GRACE: '-1s', POSTHORN_PROT: '1' }
    const readFile = () => '{"logLevel": "loud", "hots": "x", "host": {}}'
    const problem = problemOf(() => loadConfig({ flags: { concurrency: '0', config: 'x.json' }, env, readFile }))
    for (const expected of [
      /POSTHORN_PORT must be a whole number from 0 to 65535, not "http"/,
      /MAX_ATTEMPTS must be a whole number/,
      /POSTHORN_GRACE must be a duration/,
      /POSTHORN_PROT is not a setting; did you mean POSTHORN_PORT\?/,
      /--concurrency must be a whole number from 1/,
      /logLevel in the file must be one of trace/,
      /x\.json: hots is not a setting; did you mean host\?/,
      /x\.json: host must be a text/,
    ]) {
      assert.match(problem, expected)
    }
  })

  test('refuses to be open to other machines without a key, and says why', () => {
    for (const host of ['0.0.0.0', '::', '192.168.1.5', 'example.com']) {
      assert.match(
        problemOf(() => load({ POSTHORN_HOST: host })),
        /needs a key: set POSTHORN_API_KEY/,
      )
      assert.equal(load({ POSTHORN_HOST: host, POSTHORN_API_KEY: 'k'.repeat(16) }).host, host)
    }
    for (const host of ['127.0.0.1', '127.8.9.1', '::1', '[::1]', 'localhost']) assert.ok(load({ POSTHORN_HOST: host }))
  })

  const wrong: readonly [string, string, RegExp][] = [
    ['POSTHORN_DATABASE_URL', 'postgres://db', /names no database/],
    ['POSTHORN_DATABASE_URL', 'mysql://db/x', /must be sqlite:/],
    ['POSTHORN_DATABASE_URL', 'sqlite::memory:', /must name a file/],
    ['POSTHORN_HOST', 'a b', /must be an address/],
    ['POSTHORN_PORT', '65536', /whole number/],
    ['POSTHORN_PORT', '4800.5', /whole number/],
    ['POSTHORN_API_KEY', 'short', /16 to 512/],
    ['POSTHORN_API_KEY', 'with a space in it x', /no spaces/],
    ['POSTHORN_URL', 'ftp://x', /must be an http/],
    ['POSTHORN_ALLOW_PRIVATE', '10.0.0.0/33', /10\.0\.0\.0\/33 is neither/],
    ['POSTHORN_ALLOW_PRIVATE', '127.0.0.1,nonsense', /nonsense is neither/],
    ['POSTHORN_ENCRYPTION_KEY', 'AAAA', /32 bytes/],
    ['POSTHORN_LOG_LEVEL', 'INFO', /must be one of/],
    ['POSTHORN_LOG_FORMAT', 'xml', /must be one of auto, json, pretty/],
    ['POSTHORN_EVENT_BYTES_MAX', '1MB', /must be a size/],
    ['POSTHORN_EVENT_BYTES_MAX', '1', /must be a size/],
    ['POSTHORN_BATCH_BYTES_MAX', '512KiB', /must not be smaller than POSTHORN_EVENT_BYTES_MAX/],
    ['RETRY_BASE_DELAY', '5 seconds', /must be a duration/],
    ['RETRY_MAX_DELAY', '9999d', /must be a duration/],
    ['POSTHORN_CONFIG', '/nowhere/at/all.json', /cannot be read as JSON: ENOENT/],
  ]
  for (const [name, value, expected] of wrong) {
    test(`refuses ${name}=${value}`, () =>
      assert.match(
        problemOf(() => load({ [name]: value })),
        expected,
      ))
  }

  test('reads what people write', () => {
    const hex = 'ab'.repeat(32)
    assert.equal(load({ POSTHORN_ENCRYPTION_KEY: hex }).encryptionKey?.length, 32)
    assert.equal(load({ POSTHORN_EVENT_BYTES_MAX: '512KiB' }).eventBytesMax, 524_288)
    assert.equal(load({ RETRY_BASE_DELAY: '250ms' }).retryBaseDelayMs, 250)
    const databaseOf = (url: string) => load({ POSTHORN_DATABASE_URL: url }).database
    assert.deepEqual(databaseOf('sqlite:///var/lib/posthorn.db'), { kind: 'sqlite', path: '/var/lib/posthorn.db' })
    const url = 'postgres://ada:secret@db.example:5432/app?sslmode=require'
    assert.deepEqual(databaseOf(url), { kind: 'postgres', url, schema: 'posthorn' })
    assert.deepEqual(databaseOf(`${url}&schema=events`), { kind: 'postgres', url, schema: 'events' })
    assert.equal(load({ POSTHORN_API_KEY: '' }).apiKey, null, 'empty is not set')
    assert.deepEqual(load({ POSTHORN_ALLOW_PRIVATE: ' 127.0.0.1 , fd00::/8 ' }).allowPrivate, ['127.0.0.1', 'fd00::/8'])
  })

  test('takes nothing that Kubernetes sets for a service called posthorn for a setting', () => {
    const links = {
      POSTHORN_PORT: 'tcp://10.0.0.1:4800',
      POSTHORN_PORT_4800_TCP_PORT: '4800',
      POSTHORN_SERVICE_HOST: '10.0.0.1',
    }
    assert.equal(load(links).port, 4800)
    assert.equal(load(links).given.port.origin, 'default')
    assert.equal(load({ POSTHORN_PUBLIC_PORT: 'tcp://10.0.0.2:80' }).publicPort, null)
  })

  test('has other defaults where a caller has them, and these lose to the file', () => {
    const fallbacks = { logLevel: 'warn', grace: '1s' }
    const input = { flags: { config: 'x.json' }, env: {}, readFile: () => '{"grace": "2s"}', fallbacks }
    const { logLevel, graceMs, given } = loadConfig(input)
    assert.deepEqual([logLevel, given.logLevel.origin, graceMs], ['warn', 'default', 2_000])
  })

  test('is described by docs/configuration.md', () => {
    const command = `node -e "import('./src/config.ts').then((c) => process.stdout.write(c.configurationPage()))"`
    const page = readFileSync(new URL('../docs/configuration.md', import.meta.url), 'utf8')
    assert.equal(page, configurationPage(), `write it again: ${command} > docs/configuration.md`)
  })
})

function load(env: Record<string, string>): Config {
  return loadConfig({ flags: {}, env })
}

function problemOf(work: () => unknown): string {
  try {
    work()
  } catch (error) {
    assert.ok(error instanceof PosthornError && error.code === 'config_invalid', String(error))
    return error.message
  }
  assert.fail('it was accepted')
}
