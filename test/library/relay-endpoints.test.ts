import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { posthornFor } from './scene.ts'

const saying = (message: RegExp) => ({ code: 'invalid', message })

describe('posthorn.endpoints', () => {
  test('makes and changes endpoints that lead to a relay by the rules of the API', async (t) => {
    const posthorn = await posthornFor(t, { serve: { port: 0 } })
    const { create, update } = {
      create: (fields: object) => posthorn.endpoints.create({ kind: 'relay', relay: 'home', route: 'x', ...fields }),
      update: (id: string, fields: object) => posthorn.endpoints.update(id, fields),
    }
    await assert.rejects(create({}), saying(/relay is no relay of the tenant default/))
    const relay = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"home"}' }
    assert.equal((await fetch(`${posthorn.url}/v1/relays`, relay)).status, 201)
    const made = await create({ types: ['x'] })
    assert.deepEqual([made.kind, made.ordering, made.breaker], ['relay', 'endpoint', false])
    assert.match(made.secret ?? '', /^whsec_/)
    assert.equal('route' in made && made.route, 'x')
    await assert.rejects(update(made.id, { relay: 'hone' }), saying(/did you mean home\?/))
    await assert.rejects(update(made.id, { url: 'http://127.0.0.1:9/' }), saying(/url is not for relays/))
  })
})
