import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { describe, type TestContext, test } from 'node:test'
import { ApiClient, ApiProblem, Unreachable } from '../../src/server/client.ts'

describe('the REST client', () => {
  test('sends the key, the query and the bytes as they are', async (t) => {
    const seen: string[] = []
    const client = await clientFor(t, async (request, response) => {
      const chunks = await request.toArray()
      const { authorization, 'content-type': type } = request.headers
      seen.push(
        `${request.method} ${request.url}`,
        String(authorization),
        String(type),
        Buffer.concat(chunks).toString(),
      )
      response.end('{"id":"evt_1"}')
    })
    const content = { bytes: '{"a":1.0}', type: 'application/x-ndjson' }
    const answer = await client.json('POST', '/v1/events', { content, query: { key: 'a b', tenant: undefined } })
    assert.deepEqual(answer, { id: 'evt_1' })
    assert.deepEqual(seen, ['POST /v1/events?key=a+b', 'Bearer secret', 'application/x-ndjson', '{"a":1.0}'])
  })

  test('turns a problem into an error with every wrong field', async (t) => {
    const errors = [
      { path: 'retry.baseDelay', message: 'is not a duration' },
      { path: 'types', message: 'is not a list' },
    ]
    const type = 'urn:posthorn:problem:validation'
    const body = JSON.stringify({ type, title: 'Invalid', status: 422, detail: 'Two fields are wrong.', errors })
    const client = await clientFor(t, (_, response) => response.writeHead(422).end(body))
    await assert.rejects(client.post('/v1/endpoints', {}), (error) => {
      assert.ok(error instanceof ApiProblem)
      assert.deepEqual(
        [error.status, error.type, error.message, error.errors],
        [422, type, 'Two fields are wrong.', errors],
      )
      return true
    })
  })

  test('reads how long to wait', async (t) => {
    const client = await clientFor(t, (_, response) => response.writeHead(503, { 'retry-after': '2' }).end('{}'))
    await assert.rejects(client.get('/'), { status: 503, retryAfterMs: 2000 })
  })

  test('says when it is not a Posthorn that answers', async (t) => {
    const client = await clientFor(t, (request, response) =>
      response.writeHead(request.url === '/fine' ? 200 : 404).end('<html>'),
    )
    await assert.rejects(client.get('/v1/events'), /answered 404, and not as Posthorn does; is POSTHORN_URL right\?/)
    await assert.rejects(client.get('/fine'), /answered 200 with something that is not JSON/)
  })

  test('says when the server hangs up', async (t) => {
    const client = await clientFor(t, (request) => request.socket.destroy())
    await assert.rejects(client.get('/'), (error) => error instanceof Unreachable && /broke off/.test(error.message))
  })

  test('says when the server hangs up in the middle of an answer', async (t) => {
    const client = await clientFor(t, (request, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('{', () => request.socket.destroy())
    })
    await assert.rejects(client.get('/'), Unreachable)
  })

  test('says how long no answer came, as long as it was told to wait', async (t) => {
    const client = await clientFor(t, () => {})
    await assert.rejects(client.json('POST', '/', { silenceMsMax: 20 }), /no answer for 0\.02 s/)
  })

  test('can be called off', async (t) => {
    const stop = new AbortController()
    const client = await clientFor(t, () => stop.abort())
    await assert.rejects(client.get('/', {}, stop.signal), { name: 'AbortError' })
  })
})

async function clientFor(t: TestContext, listener: RequestListener): Promise<ApiClient> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return new ApiClient({ url: `http://127.0.0.1:${port}/`, apiKey: 'secret' })
}
