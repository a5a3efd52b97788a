import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json } from '../server/served.ts'
import { posthornFor } from './scene.ts'

test('the endpoint of a handler has neither a secret nor what is for http endpoints', async (t) => {
  const posthorn = await posthornFor(t, { serve: { port: 0 }, handlers: { 'order.*': () => {} } })
  const [{ id } = assert.fail('there is no endpoint')] = await posthorn.endpoints.list()
  const call = async (method: string, path: string, body?: object) => {
    const sent = body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
    const response = await fetch(`${posthorn.url}/v1/endpoints/${id}${path}`, { method, ...sent })
    return { status: response.status, json: (await response.json()) as Json }
  }
  for (const reply of [await call('GET', '/secret'), await call('POST', '/rotate-secret')]) {
    assert.equal(reply.status, 409)
    assert.match(reply.json.detail, /is a handler, and has no secret/)
  }
  const change = {
    url: 'http://127.0.0.1:9/',
    disableAfter: '2d',
    forwardHeaders: true,
    headers: { 'x-a': 'b' },
    classify: { 409: 'retryable' },
  } as const
  const refused = await call('PATCH', '', { ...change, concurrency: 2 })
  assert.equal(refused.status, 422)
  assert.deepEqual(
    Object.fromEntries(
      refused.json.errors.map((error: { path: string; message: string }) => [error.path, error.message]),
    ),
    Object.fromEntries(Object.keys(change).map((name) => [name, 'is not for handlers'])),
  )
  await assert.rejects(posthorn.endpoints.update(id, change), /headers is not for handlers/)
  assert.equal((await posthorn.endpoints.get(id))?.concurrency, 8, 'nothing of it was kept')
  assert.equal((await call('PATCH', '', { concurrency: 2 })).status, 200)
})

test('the endpoint of code that runs cannot be deleted; when the code is stopped it can', async (t) => {
  const posthorn = await posthornFor(t, { serve: { port: 0 } })
  const handle = posthorn.handle('order.*', () => {})
  await handle.ready
  const [{ id } = assert.fail('there is no endpoint')] = await posthorn.endpoints.list()
  const response = await fetch(`${posthorn.url}/v1/endpoints/${id}`, { method: 'DELETE' })
  const { detail } = (await response.json()) as Json
  assert.equal(response.status, 409)
  assert.match(detail, /^The code of the handler order\.\* runs, .*: stop the code first, or pause the endpoint\.$/)
  await assert.rejects(posthorn.endpoints.delete(id), { code: 'conflict', message: detail })
  assert.equal((await posthorn.endpoints.list()).length, 1)
  await posthorn.endpoints.pause(id)
  await assert.rejects(posthorn.endpoints.delete(id), { code: 'conflict' })
  await handle.stop()
  assert.equal((await fetch(`${posthorn.url}/v1/endpoints/${id}`, { method: 'DELETE' })).status, 204)
  assert.deepEqual(await posthorn.endpoints.list(), [])
})
