import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openServed, type Served } from './served.ts'

let served: Served

before(async () => {
  served = await openServed()
})
after(() => served.stop())

/** The value of a series; null: there is none. */
async function sampleOf(series: string): Promise<number | null> {
  const { text } = await served.call('GET', '/metrics')
  const line = text.split('\n').find((each) => each.startsWith(`${series} `))
  return line === undefined ? null : Number(line.slice(series.length + 1))
}

/** Asks until the answer is this, or for too long. */
async function becomes(series: string, wanted: number): Promise<void> {
  for (let left = 500; left > 0 && (await sampleOf(series)) !== wanted; left -= 1)
    await new Promise((resolve) => setImmediate(resolve))
  assert.equal(await sampleOf(series), wanted, series)
}

async function pausedEndpoint(type: string): Promise<string> {
  const { json } = await served.call('POST', '/v1/endpoints', {
    kind: 'http',
    url: `${served.url}/none`,
    types: [type],
  })
  await served.call('POST', `/v1/endpoints/${json.id}/pause`)
  return json.id
}

describe('GET /metrics', () => {
  test('deliveries that ended with their endpoint are among those that ended', async () => {
    const id = await pausedEndpoint('order.created')
    await served.call(
      'POST',
      '/v1/events/batch',
      Array.from({ length: 3 }, (_, n) => ({ type: 'order.created', data: { n } })),
    )
    await served.call('DELETE', `/v1/endpoints/${id}`)
    await becomes('posthorn_deliveries_settled_total{status="failed"}', 3)
    await becomes('posthorn_dead_letters_total{reason="endpoint_deleted"}', 3)
  })

  test('says of which endpoint a dead letter is', async () => {
    const { json } = await served.call('POST', '/v1/endpoints', {
      ...{ kind: 'http', url: `${served.url}/none`, types: ['invoice.paid'] },
    })
    const labels = `tenant="default",endpoint="${json.id}"`
    assert.equal(await sampleOf(`posthorn_endpoint_dead_letters_total{${labels}}`), 0)
    await served.call('POST', '/v1/events', { type: 'invoice.paid', data: {} })
    await becomes(`posthorn_endpoint_attempts_total{${labels},outcome="permanent"}`, 1)
    assert.equal(await sampleOf(`posthorn_endpoint_dead_letters_total{${labels}}`), 1)
  })
})
