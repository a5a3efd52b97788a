import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Json, openServed, type Reply, type Served } from './served.ts'

let served: Served
let names = 0

before(async () => {
  served = await openServed({ POSTHORN_EVENT_BYTES_MAX: '64KiB' })
})
after(() => served.stop())

/** A name that only one test uses: tests share the server and nothing else. */
function aName(): string {
  names += 1
  return `source-${names}`
}

const secret = 'a-secret-of-two-sides'
const create = (fields: object) => served.call('POST', '/v1/sources', { name: aName(), ...fields })

async function created(fields: object): Promise<Json> {
  const reply = await create(fields)
  assert.equal(reply.status, 201, reply.text)
  return reply.json
}

function errorsOf(reply: Reply): Record<string, string> {
  assert.equal(reply.status, 422, reply.text)
  return Object.fromEntries(
    reply.json.errors.map((error: { path: string; message: string }) => [error.path, error.message]),
  )
}

describe('a source', () => {
  test('is created with a default for everything but name, provider and secret', async () => {
    const name = aName()
    const { id, createdAt, updatedAt, ...rest } = await created({ name, provider: 'github', secret })
    assert.match(id, /^src_/)
    assert.equal(createdAt, updatedAt)
    assert.deepEqual(rest, {
      name,
      path: `/in/${name}`,
      tenant: 'default',
      provider: 'github',
      description: '',
      type: 'github.{x-github-event}',
      key: null,
      tolerance: '5m',
      bodyBytesMax: 65_536,
      contentTypes: null,
      url: null,
      hmac: null,
      secret,
    })
  })

  test('keeps all that was said of it', async () => {
    const fields = {
      provider: 'hmac',
      tenant: 'acme',
      description: 'our own',
      type: 'own.{x-type}',
      key: '{$.order.id}',
      tolerance: '1m',
      bodyBytesMax: 1_000,
      contentTypes: ['application/json'],
      hmac: { header: 'X-Signature', algorithm: 'sha512', encoding: 'base64', prefix: 'v1=' },
    }
    const { id } = await created({ ...fields, secret })
    const { json } = await served.call('GET', `/v1/sources/${id}`)
    const hmac = { ...fields.hmac, header: 'x-signature', timestampHeader: null, idHeader: null }
    assert.deepEqual({ ...json, ...fields, hmac }, json)
  })

  test('shows its secret when it is made, rotated or asked for, and never else', async () => {
    const { id } = await created({ provider: 'github', secret })
    assert.equal((await served.call('GET', `/v1/sources/${id}/secret`)).json.secret, secret)
    for (const path of [`/v1/sources/${id}`, '/v1/sources']) {
      assert.ok(!(await served.call('GET', path)).text.includes(secret))
    }
    const rotated = await served.call('POST', `/v1/sources/${id}/rotate-secret`, { secret: 'another-secret' })
    assert.equal(rotated.json.secret, 'another-secret')
    assert.equal(rotated.headers.get('cache-control'), 'no-store')
    assert.equal((await served.call('GET', `/v1/sources/${id}/secret`)).json.secret, 'another-secret')
  })

  test('is known by its id and by its name', async () => {
    const { id, name } = await created({ provider: 'none' })
    for (const known of [id, name]) assert.equal((await served.call('GET', `/v1/sources/${known}`)).json.id, id)
    assert.equal((await served.call('DELETE', `/v1/sources/${name}`)).status, 204)
    for (const known of [id, name, 'src_', '%00', 'a/b']) {
      assert.equal((await served.call('GET', `/v1/sources/${known}`)).status, 404, known)
    }
  })

  test('is changed in what is named, and stays in the rest', async () => {
    const { id } = await created({ provider: 'none', description: 'a', key: '{x-key}' })
    const changed = await served.call('PATCH', `/v1/sources/${id}`, { description: 'b', key: null })
    assert.equal(changed.status, 200, changed.text)
    assert.deepEqual([changed.json.description, changed.json.key, changed.json.provider], ['b', null, 'none'])
    const name = await served.call('PATCH', `/v1/sources/${id}`, { name: 'other', secret, provider: 'github' })
    assert.deepEqual(Object.keys(errorsOf(name)).sort(), ['name', 'provider', 'secret'])
    const wrong = await served.call('PATCH', `/v1/sources/${id}`, { url: 'https://a.example/', hmac: { header: 'a' } })
    assert.deepEqual(errorsOf(wrong), {
      url: 'is for providers that sign the address: twilio and square',
      hmac: 'is for the provider hmac alone',
    })
  })

  test('is listed page by page, by tenant and by provider', async () => {
    const made: string[] = []
    for (let i = 0; i < 3; i++) made.push((await created({ provider: 'none', tenant: 'listed' })).id)
    const other = await created({ provider: 'github', secret, tenant: 'listed' })
    const first = (await served.call('GET', '/v1/sources?tenant=listed&provider=none&limit=2')).json
    const second = (await served.call('GET', `/v1/sources?tenant=listed&limit=2&cursor=${first.next}`)).json
    const ids = [...first.items, ...second.items].map((source: { id: string }) => source.id)
    assert.deepEqual(ids, [...made, other.id])
    assert.equal(second.next, null)
  })

  test('has a name of its own', async () => {
    const { name } = await created({ provider: 'none' })
    const again = await create({ name, provider: 'none', tenant: 'other' })
    assert.equal(again.status, 409, again.text)
    const both = await Promise.all([1, 2].map(() => create({ name: 'raced', provider: 'none' })))
    assert.deepEqual(both.map(({ status }) => status).sort(), [201, 409])
  })
})

describe('the secret of a source', () => {
  test('is made up for Standard Webhooks, which svix is another name for', async () => {
    const { secret: made, provider, id } = await created({ provider: 'svix' })
    assert.match(made, /^whsec_[A-Za-z0-9+/]{43}=$/)
    assert.equal(provider, 'standard')
    const rotated = await served.call('POST', `/v1/sources/${id}/rotate-secret`)
    assert.match(rotated.json.secret, /^whsec_/)
    assert.notEqual(rotated.json.secret, made)
  })

  test('has to be given where the provider makes it, when it is new as when it is made', async () => {
    for (const provider of ['github', 'stripe', 'slack', 'shopify', 'twilio', 'square']) {
      assert.deepEqual(errorsOf(await create({ provider })), { secret: 'is required' })
    }
    const { id } = await created({ provider: 'stripe', secret: 'whsec_of_stripe' })
    const rotated = await served.call('POST', `/v1/sources/${id}/rotate-secret`)
    assert.deepEqual(errorsOf(rotated), { secret: 'is required: stripe shows it to you' })
  })

  test('is none where nothing is signed', async () => {
    const { id, secret: none } = await created({ provider: 'none' })
    assert.equal(none, null)
    assert.deepEqual(errorsOf(await create({ provider: 'none', secret })), { secret: 'is not for the provider none' })
    assert.equal((await served.call('POST', `/v1/sources/${id}/rotate-secret`)).status, 409)
  })
})

describe('a source that makes no sense', () => {
  test('is refused with every wrong field at once', async () => {
    const errors = errorsOf(
      await create({
        name: 'not a name',
        provider: 'hmac',
        type: 'two words',
        key: '{',
        tolerance: 'soon',
        bodyBytesMax: 1e9,
        contentTypes: ['json'],
        url: 'https://a.example/',
        tenannt: 'a',
      }),
    )
    assert.deepEqual(Object.keys(errors).sort(), [
      ...['bodyBytesMax', 'contentTypes[0]', 'hmac', 'key', 'name', 'secret', 'tenannt', 'tolerance', 'type', 'url'],
    ])
    assert.equal(errors.tenannt, 'is not a field; did you mean tenant?')
  })

  test('is refused for each of these', async () => {
    const wrong: readonly [object, string][] = [
      [{ provider: 'gitlab', secret }, 'provider'],
      [{ provider: 'github', secret: 'short' }, 'secret'],
      [{ provider: 'github', secret: ` ${secret}` }, 'secret'],
      [{ provider: 'standard', secret }, 'secret'],
      [{ provider: 'github', secret, hmac: { header: 'a' } }, 'hmac'],
      [{ provider: 'hmac', secret, hmac: {} }, 'hmac.header'],
      [{ provider: 'hmac', secret, hmac: { header: 'a b' } }, 'hmac.header'],
      [{ provider: 'hmac', secret, hmac: { header: 'a', algorithm: 'md5' } }, 'hmac.algorithm'],
      [{ provider: 'twilio', secret, url: 'hooks.example' }, 'url'],
      [{ provider: 'none', name: 'src_a' }, 'name'],
      [{ provider: 'none', name: '-a' }, 'name'],
      [{ provider: 'none', name: 'x'.repeat(65) }, 'name'],
      [{ provider: 'none', contentTypes: [] }, 'contentTypes'],
    ]
    for (const [fields, path] of wrong) {
      assert.deepEqual(Object.keys(errorsOf(await create(fields))), [path], JSON.stringify(fields))
    }
  })
})
