import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { endpointWarnings } from '../../src/server/endpoint-target.ts'
import { anEndpoint } from '../support/builders.ts'
import { openServed } from './served.ts'

const url = 'http://127.0.0.1:9/hooks'

describe('an endpoint with the URL and the types of another one', () => {
  test('is made, with a warning that names the other', async (t) => {
    const served = await openServed()
    t.after(() => served.stop())
    const create = async (body: object) => (await served.call('POST', '/v1/endpoints', { url, ...body })).json
    const first = await create({ types: ['order.*', 'invoice.paid'] })
    assert.deepEqual(first.warnings, [])
    const second = await create({ types: ['invoice.paid', 'order.*'], ordering: 'key' })
    const warning = `${first.id} has the same URL and types: every event of these types is delivered to both.`
    assert.deepEqual(second.warnings, [warning])
    const third = await create({ types: ['user.*'] })
    assert.deepEqual(third.warnings, [], 'other types')
    const changed = await served.call('PATCH', `/v1/endpoints/${third.id}`, { types: ['order.*', 'invoice.paid'] })
    assert.deepEqual(changed.json.warnings, [warning], 'one that becomes like another is told of as well')
    const paused = await served.call('PATCH', `/v1/endpoints/${first.id}`, { url: `${url}/other` })
    assert.deepEqual(paused.json.warnings, [], 'an endpoint is not its own double')
    assert.equal((await served.call('GET', `/v1/endpoints/${second.id}`)).json.warnings, undefined)
  })

  test('is none when another tenant has it, and one when the URL is only written in another way', () => {
    const known = anEndpoint({ url: 'http://shop.example/hooks', types: ['*'] })
    const like = (given: object) => endpointWarnings(anEndpoint({ ...known, id: 'ep_other', ...given }), [known])
    assert.deepEqual(like({ tenant: 'acme' }), [])
    assert.deepEqual(like({ url: 'http://shop.example/hooks/2' }), [])
    assert.equal(like({ url: 'http://SHOP.example:80/hooks' }).length, 1)
    assert.equal(like({}).length, 1)
  })
})
