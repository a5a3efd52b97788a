import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { describe, test } from 'node:test'
import { attempts, posthornFor } from './scene.ts'

describe('handlers that are not careful', () => {
  test('one that changes its event changes nothing for the others', async (t) => {
    const posthorn = await posthornFor(t)
    const got: unknown[] = []
    const spoil = (event: { body: Uint8Array; headers: object }) => {
      event.body.fill(0x20)
      Object.assign(event.headers, { 'x-a': 'changed' })
    }
    posthorn.handle('a', spoil, { name: 'first' })
    posthorn.handle('a', ({ body, data, headers }) => got.push([Buffer.from(body).toString(), data, headers['x-a']]), {
      name: 'second',
    })
    const settled = attempts(posthorn, 2)
    await posthorn.send('a', { n: 1 }, { headers: { 'x-a': 'b' } })
    await settled
    assert.deepEqual(got, [['{"n":1}', { n: 1 }, 'b']])
  })

  test('one that is stopped and registered again in one breath has one endpoint', async (t) => {
    const posthorn = await posthornFor(t)
    await posthorn.handle('a', () => {}).stop()
    let runs = 0
    posthorn.handle('b', () => {}).stop()
    posthorn.handle('b', () => {
      runs += 1
    })
    const settled = attempts(posthorn, 1)
    const sent = await posthorn.send('b', 1)
    await settled
    assert.deepEqual([sent.deliveries, runs], [1, 1])
    const names = (await posthorn.endpoints.list()).map((endpoint) => 'handler' in endpoint && endpoint.handler)
    assert.equal(new Set(names).size, names.length)
  })
})
