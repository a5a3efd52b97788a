import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { openServed } from './served.ts'

test('a delivery that waits says for what', async (t) => {
  const served = await openServed()
  const busy = await openScriptedEndpoint([{ status: 503, headers: { 'retry-after': '600' } }])
  const down = await openScriptedEndpoint([{ status: 503 }])
  const up = await openScriptedEndpoint()
  t.after(async () => {
    await served.stop()
    await Promise.all([busy.close(), down.close(), up.close()])
  })
  const create = async (body: object): Promise<string> => {
    const { json } = await served.call('POST', '/v1/endpoints', body)
    assert.equal(json.status, 'active', JSON.stringify(json))
    return json.id
  }
  const send = async (type: string): Promise<string> => {
    const { id } = (await served.call('POST', '/v1/events', { type, data: 1 })).json
    return (await served.call('GET', `/v1/events/${id}`)).json.deliveries[0].id
  }
  const shown = async (id: string) => (await served.call('GET', `/v1/deliveries/${id}`)).json
  const tried = async (id: string) => {
    for (;;) {
      const delivery = await shown(id)
      if (delivery.attempts > 0 && delivery.status !== 'processing') return delivery
    }
  }

  const paused = await create({ url: up.url, types: ['paused'] })
  await served.call('POST', `/v1/endpoints/${paused}/pause`)
  const atPaused = await send('paused')
  assert.equal((await shown(atPaused)).waitsFor, 'paused')

  await create({
    url: busy.url,
    types: ['held'],
    retry: { preset: 'webhook', baseDelay: '1s' },
    breaker: false,
  })
  await tried(await send('held'))
  assert.equal((await shown(await send('held'))).waitsFor, 'hold')

  await create({ url: down.url, types: ['broken'], breaker: { threshold: 1, cooldown: '1h' } })
  assert.equal((await tried(await send('broken'))).waitsFor, 'breaker')

  await create({
    url: down.url,
    types: ['ordered'],
    ordering: 'endpoint',
    breaker: false,
    retry: { preset: 'webhook', baseDelay: '10m' },
  })
  assert.equal((await tried(await send('ordered'))).waitsFor, 'backoff')
  assert.equal((await shown(await send('ordered'))).waitsFor, 'lane')

  await served.call('POST', '/v1/dispatch/pause')
  assert.equal((await shown(atPaused)).waitsFor, 'all_paused')
  await served.call('POST', '/v1/dispatch/resume')
  await served.call('POST', `/v1/endpoints/${paused}/resume`)
  const delivered = await tried(atPaused)
  assert.deepEqual([delivered.status, delivered.waitsFor], ['delivered', null])
})
