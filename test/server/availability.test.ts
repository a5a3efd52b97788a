import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { PosthornError } from '../../src/core/errors.ts'
import type { Store } from '../../src/store/store.ts'
import { openServed, openServedParts } from './served.ts'

const event = { type: 'a', data: 1 }

/** The real store, of which single methods are replaced. */
function withMethods(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name) {
      const own = (methods as Record<PropertyKey, unknown>)[name]
      const value = own ?? Reflect.get(target, name)
      return typeof value === 'function' && own === undefined ? value.bind(target) : value
    },
  })
}

describe('while the store cannot be written', () => {
  test('ingest answers 503 with Retry-After, readiness is red, liveness green, and it goes on by itself', async () => {
    let full = false
    const problem = 'The disk is full; free some space.'
    const served = await openServedParts(
      () => ({}),
      {},
      (store) =>
        withMethods(store, {
          append: (arrivals) =>
            full ? Promise.reject(new PosthornError('store_full', problem)) : store.append(arrivals),
          health: () => (full ? { writable: false, problem } : store.health()),
        }),
    )
    try {
      full = true
      const routes: readonly [string, unknown][] = [
        ['/v1/events', event],
        ['/v1/events/batch', [event]],
        ['/v1/events/a', 'x'],
      ]
      for (const [path, body] of routes) {
        const reply = await served.call('POST', path, body)
        assert.deepEqual([reply.status, reply.json.type], [503, 'urn:posthorn:problem:store_full'])
        assert.equal(reply.json.detail, problem)
        assert.equal(reply.headers.get('retry-after'), '5')
      }
      const ready = await served.call('GET', '/readyz')
      assert.deepEqual([ready.status, ready.json], [503, { status: 'not_ready', reasons: [problem], paused: false }])
      assert.equal((await served.call('GET', '/healthz')).status, 200)
      assert.match((await served.call('GET', '/metrics')).text, /^posthorn_store_writable 0$/m)
      full = false
      assert.equal((await served.call('POST', '/v1/events', event)).status, 202)
      assert.equal((await served.call('GET', '/readyz')).status, 200)
    } finally {
      await served.stop()
    }
  })

  test('changes of endpoints answer 503, too', async () => {
    const fail = () => Promise.reject(new PosthornError('store_read_only', 'The file is read-only.'))
    const served = await openServedParts(
      () => ({}),
      {},
      (store) => withMethods(store, { putEntry: fail }),
    )
    try {
      const reply = await served.call('POST', '/v1/endpoints', { url: 'http://127.0.0.1:9/' })
      assert.deepEqual([reply.status, reply.json.type], [503, 'urn:posthorn:problem:store_read_only'])
      assert.deepEqual((await served.call('GET', '/v1/endpoints')).json.items, [])
    } finally {
      await served.stop()
    }
  })
})

test('a full intake and a shutdown answer 503 with Retry-After', async () => {
  const codes = ['intake_full', 'shutting_down'] as const
  for (const code of codes) {
    const served = await openServedParts(({ intake }) => {
      intake.accept = () => Promise.reject(new PosthornError(code, 'Send the event again later.'))
      return {}
    })
    try {
      const reply = await served.call('POST', '/v1/events', event)
      assert.deepEqual([reply.status, reply.json.type], [503, `urn:posthorn:problem:${code}`])
      assert.match(reply.headers.get('retry-after') ?? '', /^[1-9]/)
    } finally {
      await served.stop()
    }
  }
})

test('a defect of ours is a 500 with an id that is in the log, once, and tells nothing else', async () => {
  const broken = () => Promise.reject(new TypeError('secret inner detail'))
  const served = await openServedParts(
    ({ intake }) => {
      intake.accept = broken
      return {}
    },
    {},
    (store) => withMethods(store, { listEvents: broken }),
  )
  try {
    for (const [method, path] of [
      ['POST', '/v1/events'],
      ['GET', '/v1/events'],
    ] as const) {
      const before = served.logged.length
      const reply = await served.call(method, path, method === 'POST' ? event : undefined)
      assert.equal(reply.status, 500)
      assert.ok(!reply.text.includes('inner detail'))
      assert.match(reply.json.requestId, /^req_/)
      const lines = served.logged.slice(before)
      assert.equal(lines.length, 1)
      assert.deepEqual([lines[0]?.message, lines[0]?.fields.requestId], ['request.failed', reply.json.requestId])
      assert.match(String(lines[0]?.fields.err), /inner detail/)
    }
  } finally {
    await served.stop()
  }
})

describe('a client that misbehaves', () => {
  const quick = { headersTimeout: 200, requestTimeout: 400, connectionsCheckingInterval: 50 }

  test('by sending its headers or its body drop by drop is cut off, and others are served meanwhile', async () => {
    const served = await openServedParts(() => ({}), quick)
    try {
      const headers = await slowly(served.url, 'POST /v1/events HTTP/1.1\r\nhost: localhost\r\n', 'x-a: b\r\n')
      const body = slowly(
        served.url,
        'POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999\r\n\r\n',
        ' ',
      )
      assert.equal((await served.call('POST', '/v1/events', event)).status, 202)
      assert.match(headers, /^HTTP\/1\.1 408 /)
      assert.match(headers, /urn:posthorn:problem:request_timeout/)
      assert.match(await body, /^HTTP\/1\.1 408 /)
    } finally {
      await served.stop()
    }
  })

  test('by hanging up before the answer loses nothing and breaks nothing', async () => {
    const served = await openServedParts(() => ({}))
    try {
      const body = '{"type":"hung.up","data":1}'
      const head = `POST /v1/events HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n`
      const whole = `${head}content-length: ${body.length}\r\n\r\n${body}`
      for (let n = 0; n < 50; n++) await hangUpAfter(served.url, whole)
      for (let n = 0; n < 10; n++) await hangUpAfter(served.url, whole.slice(0, -5))
      for (const path of ['/v1/events/batch', '/v1/events/a'])
        await hangUpAfter(served.url, `POST ${path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n[`)
      assert.equal((await served.call('POST', '/v1/events', event)).status, 202)
      const { items } = (await served.call('GET', '/v1/events?type=hung.up&limit=500')).json
      assert.ok(items.length <= 50)
      assert.equal((await served.call('GET', '/readyz')).status, 200)
    } finally {
      await served.stop()
    }
  })

  test('by not speaking HTTP, or with headers too large, is told so', async () => {
    const served = await openServedParts(() => ({}))
    try {
      assert.match(await talk(served.url, 'hello\r\n\r\n'), /^HTTP\/1\.1 400 .*malformed_request/s)
      const large = `GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-a: ${'x'.repeat(20_000)}\r\n\r\n`
      assert.match(await talk(served.url, large), /^HTTP\/1\.1 431 .*headers_too_large/s)
      const smuggling =
        'POST /v1/events HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'
      assert.match(await talk(served.url, smuggling), /^HTTP\/1\.1 400 /)
    } finally {
      await served.stop()
    }
  })
})

describe('the server', () => {
  test('says which port is in use', async () => {
    const served = await openServed()
    try {
      const { port } = new URL(served.url)
      await assert.rejects(openServed({ POSTHORN_PORT: port }), (error: unknown) => {
        return error instanceof PosthornError && error.message.includes(`Port ${port} on 127.0.0.1 is in use`)
      })
    } finally {
      await served.stop()
    }
  })

  test('stops at once when it is idle, twice if asked, and listens no more', async () => {
    const served = await openServed()
    await served.call('POST', '/v1/events', event)
    const startedAt = performance.now()
    await Promise.all([served.stop(), served.stop()])
    assert.ok(performance.now() - startedAt < 2_500, 'a kept-alive connection does not hold it up')
    await assert.rejects(fetch(`${served.url}/healthz`))
  })

  test('lets an open request finish before it stops', async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
    const served = await openServedParts(({ intake }) => {
      const accept = intake.accept.bind(intake)
      intake.accept = async (inputs) => {
        arrive()
        await held
        return accept(inputs)
      }
      return {}
    })
    const answer = served.call('POST', '/v1/events', event)
    await arrived
    const stopped = served.stop()
    release()
    assert.equal((await answer).status, 202)
    await stopped
  })
})

/** Sends the head, then a drop every now and then; what the server said until it closed. */
async function slowly(url: string, head: string, drop: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write(head)
  const timer = setInterval(() => socket.writable && socket.write(drop), 30)
  let answer = ''
  socket.setEncoding('utf8').on('data', (text) => {
    answer += text
  })
  await once(socket, 'close')
  clearInterval(timer)
  return answer
}

async function talk(url: string, text: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  let answer = ''
  socket.setEncoding('utf8').on('data', (text) => {
    answer += text
  })
  socket.write(text)
  await once(socket, 'close')
  return answer
}

async function hangUpAfter(url: string, text: string): Promise<void> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.on('error', () => {})
  await new Promise<void>((resolve) => socket.write(text, () => resolve()))
  socket.resetAndDestroy()
  await once(socket, 'close')
}
