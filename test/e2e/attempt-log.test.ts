import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { startServer } from '../support/server-process.ts'
import { tempFolder } from '../support/sqlite.ts'

test('every try is one wide line with the ids, the number of the attempt and what it meant', async () => {
  const folder = await tempFolder()
  let answers = 0
  const sink = createServer((_, response) => response.writeHead(++answers === 1 ? 503 : 200).end())
  sink.listen(0, '127.0.0.1')
  await once(sink, 'listening')
  const server = await startServer({ database: join(folder.path, 'log.db'), env: { POSTHORN_LOG_LEVEL: 'info' } })
  try {
    const post = async (path: string, body: object) => {
      const options = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
      return (await (await fetch(`${server.url}${path}`, options)).json()) as { id: string }
    }
    const url = `http://127.0.0.1:${(sink.address() as AddressInfo).port}`
    const retry = { strategy: 'schedule', delays: ['1ms'], maxAttempts: 2 }
    const endpoint = await post('/v1/endpoints', { url, retry })
    const event = await post('/v1/events', { type: 'order.paid', data: 1 })
    while (server.said().split('"attempt.settled"').length < 3) await once(server.child.stderr!, 'data')
    const lines = server
      .said()
      .split('\n')
      .filter((line) => line.includes('"attempt.settled"'))
      .map((line) => JSON.parse(line))
    const known = { eventId: event.id, endpointId: endpoint.id, type: 'order.paid', msg: 'attempt.settled' }
    const expected = [
      {
        ...known,
        attempt: 1,
        outcome: 'unavailable',
        status: 'pending',
        statusCode: 503,
        error: 'HTTP 503',
        level: 'warn',
      },
      { ...known, attempt: 2, outcome: 'delivered', status: 'delivered', statusCode: 200, error: null, level: 'info' },
    ]
    assert.equal(lines.length, 2)
    for (const [index, { deliveryId, time, tookMs, retryAfter, ...line }] of lines.entries()) {
      assert.match(deliveryId, /^dlv_/)
      assert.equal(typeof tookMs, 'number')
      assert.equal(retryAfter === null, index === 1)
      assert.ok(time)
      assert.deepEqual(line, expected[index])
    }
  } finally {
    assert.equal(await server.stop(), 0)
    sink.close()
    await folder.remove()
  }
})
