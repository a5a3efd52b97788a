import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import fastify from 'fastify'
import { descriptions } from '../../src/server/descriptions.ts'
import { Api } from '../../src/server/route.ts'
import { type Described, describedBy } from './described.ts'
import { type Json, openServed, type Served } from './served.ts'

describe('the OpenAPI document', () => {
  let served: Served
  let api: Described
  before(async () => {
    served = await openServed()
    api = describedBy((await served.call('GET', '/openapi.json')).json)
  })
  after(() => served.stop())

  test('is valid OpenAPI 3.1', async () => {
    const { valid, errors } = await new Validator().validate(structuredClone(api.document))
    assert.ok(valid, JSON.stringify(errors))
    assert.equal(api.document.openapi, '3.1.0')
  })

  test('has no two paths that differ only in the names of their parts, and no operation twice', () => {
    const paths = Object.keys(api.document.paths).map((path) => path.replace(/\{\w+\}/g, '{}'))
    assert.equal(new Set(paths).size, paths.length)
    const names = api.operations.map(({ facts }) => facts.operationId)
    assert.equal(new Set(names).size, names.length)
  })

  test('says of every operation who may call it, and that all of its problems are problems', () => {
    for (const { method, path, facts } of api.operations) {
      const what = `${method} ${path}`
      const isOpen = facts.security?.length === 0
      assert.ok(isOpen || ['read', 'send', 'admin'].includes(facts['x-posthorn-role']), what)
      assert.ok(isOpen || ('401' in facts.responses && '403' in facts.responses), what)
      for (const [status, response] of Object.entries<Json>(facts.responses)) {
        if (Number(status) >= 400) assert.ok('application/problem+json' in response.content, `${what} ${status}`)
      }
      assert.ok(facts.summary.length > 5, what)
      assert.ok(facts.description?.length > 15, `${what} has no description in descriptions.ts`)
    }
  })

  test('names its pages, and tells endpoints apart by their kind', () => {
    const { schemas } = api.document.components
    for (const { method, path, facts } of api.operations) {
      const answer = facts.responses['200']?.content?.['application/json']?.schema
      if (answer?.properties?.items !== undefined) assert.fail(`${method} ${path} answers with a page without a name`)
    }
    for (const name of ['Endpoint', 'EndpointWithSecret', 'CreatedEndpoint', 'ChangedEndpoint']) {
      assert.equal(schemas[name].discriminator.propertyName, 'kind', name)
      const refs = (schemas[name].oneOf ?? schemas[name].anyOf).map(({ $ref }: Json) => $ref)
      assert.deepEqual(Object.values(schemas[name].discriminator.mapping), refs)
    }
  })

  test('describes no operation that there is not', () => {
    const names = new Set(api.operations.map(({ facts }) => facts.operationId))
    assert.deepEqual(
      Object.keys(descriptions).filter((name) => !names.has(name)),
      [],
    )
  })

  test('describes nothing that is not served', async () => {
    for (const { method, path } of api.operations) {
      if (path === '/v1/stream') continue
      const reply = await served.call(method, path.replace(/\{\w+\}/g, 'unknown'), undefined)
      assert.notEqual(reply.status, 405, `${method} ${path}`)
      assert.doesNotMatch(reply.text, /There is no \S+ here/, `${method} ${path}`)
    }
  })

  test('has examples that fit their schemas', () => {
    let count = 0
    for (const { method, path, facts } of api.operations) {
      for (const [type, media] of Object.entries<Json>(facts.requestBody?.content ?? {})) {
        if (media.example === undefined) continue
        count += 1
        const place = ['paths', path, method.toLowerCase(), 'requestBody', 'content', type, 'schema']
        api.fits(place, media.example, `the example of ${method} ${path}`)
      }
    }
    assert.ok(count > 5)
  })

  test('needs no key', async () => {
    const closed = await openServed({ POSTHORN_API_KEY: 'the-key-of-the-configuration' })
    try {
      assert.equal((await closed.call('GET', '/openapi.json')).status, 200)
    } finally {
      await closed.stop()
    }
  })
})

test('a route that is not described cannot be registered', () => {
  const app = fastify()
  const api = new Api(
    app,
    () => ({ name: 'x', role: 'admin', tenant: null }),
    async () => [],
  )
  const facts = { name: 'x', summary: 'x', tag: 'system', role: null, responses: { 200: null } } as const
  api.route({ ...facts, method: 'GET', url: '/described', handler: () => 'x' })
  assert.throws(() => app.get('/other', () => 'x'), /not described/)
  assert.throws(() => app.post('/described', () => 'x'), /not described/)
})
