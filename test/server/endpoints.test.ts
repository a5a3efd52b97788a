import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { type Json, openServed, type Reply, type Served } from './served.ts'

let served: Served
let sink: ScriptedEndpoint

before(async () => {
  served = await openServed({ RETRY_BASE_DELAY: '1s', MAX_ATTEMPTS: '7' })
  sink = await openScriptedEndpoint()
})
after(async () => {
  await served.stop()
  await sink.close()
})

const create = (fields: object = {}) => served.call('POST', '/v1/endpoints', { url: sink.url, ...fields })

async function created(fields: object = {}): Promise<Json> {
  const reply = await create(fields)
  assert.equal(reply.status, 201, reply.text)
  return reply.json
}

function errorsOf(reply: Reply): Record<string, string> {
  assert.equal(reply.status, 422, reply.text)
  return Object.fromEntries(
    reply.json.errors.map((error: { path: string; message: string }) => [error.path, error.message]),
  )
}

describe('an endpoint', () => {
  test('is created with a default for everything but its url', async () => {
    const { id, secret, createdAt, updatedAt, url, ...rest } = await created()
    assert.match(id, /^ep_/)
    assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
    assert.equal(createdAt, updatedAt)
    assert.equal(url, sink.url)
    assert.deepEqual(rest, {
      tenant: 'default',
      kind: 'http',
      description: '',
      types: ['*'],
      ordering: 'none',
      concurrency: 10,
      rateLimit: null,
      timeout: '15s',
      retry: {
        preset: 'webhook',
        strategy: 'exponential',
        baseDelay: '1s',
        multiplier: 2,
        maxDelay: '1h',
        jitter: 0.1,
        maxAttempts: 5,
        maxAge: '7d',
      },
      breaker: { threshold: 5, cooldown: '5m', whenOpen: 'park' },
      classify: {},
      headers: {},
      status: 'active',
      statusReason: null,
      forwardHeaders: false,
      disableAfter: '5d',
      condition: {
        state: 'closed',
        until: null,
        failures: 0,
        heldUntil: null,
        failingSince: null,
        lastError: null,
        lastErrorAt: null,
      },
      warnings: [],
    })
  })

  test('shows its secret when it is made, rotated or asked for, and never else', async () => {
    const secret = `whsec_${Buffer.alloc(24, 1).toString('base64')}`
    const made = await create({ secret })
    assert.deepEqual([made.json.secret, made.headers.get('cache-control')], [secret, 'no-store'])
    const { id } = made.json
    assert.equal((await served.call('GET', `/v1/endpoints/${id}/secret`)).json.secret, secret)
    for (const path of [`/v1/endpoints/${id}`, '/v1/endpoints']) {
      assert.ok(!(await served.call('GET', path)).text.includes('whsec_'))
    }
    const rotated = (await served.call('POST', `/v1/endpoints/${id}/rotate-secret`, { keepOldFor: '1h' })).json.secret
    assert.notEqual(rotated, secret)
    assert.equal((await served.call('GET', `/v1/endpoints/${id}/secret`)).json.secret, rotated)
    const attempt = await served.call('POST', `/v1/endpoints/${id}/test`)
    assert.equal(attempt.json.outcome, 'delivered')
    const signatures = String((await sink.next()).headers['webhook-signature']).split(' ')
    assert.equal(signatures.length, 2, 'the old secret signs, too')
    await served.call('POST', `/v1/endpoints/${id}/rotate-secret`, { keepOldFor: 0 })
    await served.call('POST', `/v1/endpoints/${id}/test`)
    assert.equal(String((await sink.next()).headers['webhook-signature']).split(' ').length, 1)
  })

  test('changes field by field, and what it shows it takes back', async () => {
    const { id } = await created({ types: ['a.*'], headers: { 'X-Team': 'a' }, rateLimit: { perSecond: 5 } })
    const change = {
      retry: 'patient',
      breaker: false,
      rateLimit: null,
      classify: { 409: 'retryable', '5xx': 'permanent' },
      timeout: 3000,
    }
    const changed = (await served.call('PATCH', `/v1/endpoints/${id}`, change)).json
    assert.deepEqual([changed.types, changed.headers], [['a.*'], { 'x-team': 'a' }])
    assert.deepEqual([changed.breaker, changed.rateLimit, changed.timeout], [false, null, '3s'])
    assert.deepEqual(changed.classify, { 409: 'retryable', '5xx': 'permanent' })
    assert.equal(changed.retry.delays.length, 9)
    const { url, description, types, ordering, concurrency, rateLimit, timeout, retry, breaker, classify, headers } =
      changed
    const same = {
      url,
      description,
      types,
      ordering,
      concurrency,
      rateLimit,
      timeout,
      retry,
      breaker,
      classify,
      headers,
    }
    const again = (await served.call('PATCH', `/v1/endpoints/${id}`, same)).json
    assert.deepEqual({ ...again, updatedAt: '' }, { ...changed, updatedAt: '' })
  })

  test('is paused, resumed, listed by status, and deleted', async () => {
    const { id } = await created({ tenant: 'acme' })
    const paused = (await served.call('POST', `/v1/endpoints/${id}/pause`)).json
    assert.deepEqual([paused.status, paused.statusReason], ['paused', 'paused by a person'])
    const list = (await served.call('GET', '/v1/endpoints?tenant=acme&status=paused&kind=http')).json
    assert.deepEqual(
      list.items.map((endpoint: Json) => endpoint.id),
      [id],
    )
    const resumed = (await served.call('POST', `/v1/endpoints/${id}/resume`, {})).json
    assert.deepEqual([resumed.status, resumed.statusReason], ['active', null])
    assert.equal((await served.call('DELETE', `/v1/endpoints/${id}`)).status, 204)
    assert.equal((await served.call('DELETE', `/v1/endpoints/${id}`)).status, 404)
    for (const path of ['', '/secret'])
      assert.equal((await served.call('GET', `/v1/endpoints/${id}${path}`)).status, 404)
    for (const verb of ['pause', 'resume', 'rotate-secret', 'test']) {
      assert.equal((await served.call('POST', `/v1/endpoints/${id}/${verb}`)).status, 404, verb)
    }
  })

  test('is tried out with a real, signed request of which nothing is kept', async () => {
    const { id } = await created()
    const before = (await served.call('GET', '/v1/events')).json.items.length
    const reply = await served.call('POST', `/v1/endpoints/${id}/test`, '{"type":"my.test","data":{"n":1.0}}')
    assert.deepEqual([reply.status, reply.json.statusCode, reply.json.number], [200, 200, 1])
    const received = await sink.next()
    assert.ok(received.body.toString().endsWith('"data":{"n":1.0}}'))
    assert.match(String(received.headers['webhook-signature']), /^v1,/)
    assert.equal((await served.call('GET', '/v1/events')).json.items.length, before)
  })
})

describe('a retry policy', () => {
  const retryOf = async (retry: unknown) => (await created({ retry })).retry

  test('is a preset by name, with the environment behind `processing`', async () => {
    const { preset, baseDelay, maxAttempts } = await retryOf('processing')
    assert.deepEqual([preset, baseDelay, maxAttempts], ['processing', '2s', 7])
  })

  test('is a preset with changes, and then a preset no more', async () => {
    const changed = await retryOf({ preset: 'webhook', maxAttempts: 8, maxAge: null })
    assert.deepEqual(
      [changed.preset, changed.maxAttempts, changed.maxAge, changed.baseDelay],
      [undefined, 8, null, '1s'],
    )
    assert.equal((await retryOf({ preset: 'webhook', maxAttempts: 5 })).preset, 'webhook')
    assert.deepEqual((await retryOf({ preset: 'patient', delays: ['1s', 2000] })).delays, ['1s', '2s'])
  })

  test('is written out in full', async () => {
    const full = {
      strategy: 'exponential',
      baseDelay: '500ms',
      multiplier: 3,
      maxDelay: '10m',
      jitter: '200ms',
      maxAttempts: 3,
      maxAge: '1d',
    }
    assert.deepEqual(await retryOf(full), full)
    const schedule = { strategy: 'schedule', delays: ['0s', '1s', '2s'] }
    assert.deepEqual(await retryOf(schedule), { ...schedule, jitter: 0, maxAttempts: 4, maxAge: '7d' })
  })

  test('is refused by the form that was meant', async () => {
    const refused = async (retry: unknown) => errorsOf(await create({ retry }))
    assert.match((await refused('webhok')).retry ?? '', /must be one of processing/)
    assert.match((await refused({ preset: 'webhok' }))['retry.preset'] ?? '', /must be one of/)
    assert.match(
      (await refused({ strategy: 'linear' }))['retry.strategy'] ?? '',
      /must be one of exponential, schedule/,
    )
    assert.match((await refused({ maxAttempts: 8 })).retry ?? '', /preset/)
    for (const retry of [5, null, [], true]) assert.match((await refused(retry)).retry ?? '', /preset/)
    assert.deepEqual(Object.keys(await refused({ strategy: 'exponential', maxDelay: 'x', delays: [] })).sort(), [
      'retry.baseDelay',
      'retry.delays',
      'retry.maxDelay',
    ])
    assert.deepEqual(Object.keys(await refused({ strategy: 'schedule', delays: ['1s', '-1s'] })), ['retry.delays[1]'])
    assert.match(
      (await refused({ preset: 'webhook', maxAttempt: 3 }))['retry.maxAttempt'] ?? '',
      /did you mean maxAttempts/,
    )
    assert.deepEqual(
      Object.keys(await refused({ preset: 'webhook', jitter: -1, multiplier: 0.5, maxAttempts: 0 })).sort(),
      ['retry.jitter', 'retry.maxAttempts', 'retry.multiplier'],
    )
  })
})

describe('a bad endpoint is refused with a clear error:', () => {
  test('all wrong fields at once', async () => {
    const fields = {
      ...{ url: 'ftp://x', types: ['a b', '*'], tenant: 'a b', ordering: 'fifo', concurrency: 0, timeout: '-5s' },
      ...{
        rateLimit: { perSecond: 0 },
        breaker: { treshold: 3, cooldown: '400d' },
        classify: { 999: 'retryable', 409: 'maybe' },
      },
      ...{ headers: { 'x-a': 'a\r\nb' }, secret: 'abc', kind: 'smtp', description: 5, colour: 1 },
    }
    assert.deepEqual(Object.keys(errorsOf(await create(fields))).sort(), [
      ...[
        'breaker.cooldown',
        'breaker.treshold',
        'classify.409',
        'classify.999',
        'colour',
        'concurrency',
        'description',
      ],
      ...['headers.x-a', 'kind', 'ordering', 'rateLimit.perSecond', 'secret', 'tenant', 'timeout', 'types[0]', 'url'],
    ])
    const { length } = (await served.call('GET', '/v1/endpoints?tenant=a')).json.items
    assert.equal(length, 0)
  })

  const urls: readonly [string, RegExp][] = [
    ['http://user:pw@example.com/', /must not carry a user name/],
    ['http://user@example.com/', /must not carry a user name/],
    ['ftp://example.com/', /must begin with http/],
    ['javascript:alert(1)', /must begin with http/],
    ['http://169.254.169.254/latest', /POSTHORN_ALLOW_PRIVATE/],
    ['http://[::ffff:169.254.169.254]/', /POSTHORN_ALLOW_PRIVATE/],
    ['http://10.0.0.1/', /POSTHORN_ALLOW_PRIVATE/],
    ['https://example.com/#x', /fragment/],
    [`https://example.com/${'x'.repeat(2_048)}`, /at most 2048/],
    ['example.com', /must be a URL/],
    ['', /must be a URL/],
    ['http://', /must be a URL/],
  ]
  for (const [url, message] of urls) {
    test(`the url ${url.slice(0, 50)}`, async () => assert.match(errorsOf(await create({ url })).url ?? '', message))
  }

  test('the url http://2130706433, which is 127.0.0.1', async () => {
    const strict = await openServed({ POSTHORN_ALLOW_PRIVATE: 'none' })
    try {
      for (const url of ['http://2130706433', 'http://127.0.0.1:9/', 'http://localhost/', 'http://0x7f.1/']) {
        const reply = await strict.call('POST', '/v1/endpoints', { url })
        assert.match(errorsOf(reply).url ?? '', /POSTHORN_ALLOW_PRIVATE/, url)
      }
    } finally {
      await strict.stop()
    }
  })

  const durations = ['-1s', '5', '0s', '1e3s', 'PT5S', '6m', '99999999999d', '', 'soon', -1, 0.1, 1e300, null, {}]
  for (const timeout of durations) {
    test(`the timeout ${JSON.stringify(timeout)}`, async () => {
      assert.match(errorsOf(await create({ timeout })).timeout ?? '', /must be a duration from 1s to 5m/)
    })
  }

  for (const concurrency of [0, -1, 1001, 1.5, '10', null]) {
    test(`the concurrency ${JSON.stringify(concurrency)}`, async () => {
      assert.match(errorsOf(await create({ concurrency })).concurrency ?? '', /whole number from 1 to 1000/)
    })
  }

  test('__proto__, wherever it is', async () => {
    const body = `{"url":${JSON.stringify(sink.url)},"__proto__":1,"retry":{"preset":"webhook","__proto__":1},"headers":{"__proto__":5}}`
    const paths = Object.keys(errorsOf(await served.call('POST', '/v1/endpoints', body)))
    assert.deepEqual(paths.sort(), ['__proto__', 'headers.__proto__', 'retry.__proto__'])
  })

  test('a change of what cannot be changed, and of what is not valid', async () => {
    const { id } = await created()
    const reply = await served.call('PATCH', `/v1/endpoints/${id}`, {
      tenant: 'x',
      secret: 'y',
      status: 'paused',
      concurrency: 0,
    })
    assert.deepEqual(Object.keys(errorsOf(reply)).sort(), ['concurrency', 'secret', 'status', 'tenant'])
    const address = await served.call('PATCH', `/v1/endpoints/${id}`, { url: 'http://10.0.0.1/' })
    assert.match(errorsOf(address).url ?? '', /POSTHORN_ALLOW_PRIVATE/)
  })

  test('a rotation or a try-out that makes no sense', async () => {
    const { id } = await created()
    const rotation = await served.call('POST', `/v1/endpoints/${id}/rotate-secret`, { keepOldFor: '-1s', keep: 1 })
    assert.deepEqual(Object.keys(errorsOf(rotation)).sort(), ['keep', 'keepOldFor'])
    const tried = await served.call('POST', `/v1/endpoints/${id}/test`, { type: 'a b', dta: 1 })
    assert.deepEqual(Object.keys(errorsOf(tried)).sort(), ['dta', 'type'])
  })

  test('unknown query parameters of the list', async () => {
    const errors = errorsOf(await served.call('GET', '/v1/endpoints?statsu=x&status=gone'))
    assert.match(errors.statsu ?? '', /did you mean status/)
    assert.match(errors.status ?? '', /active, paused, disabled/)
  })
})
