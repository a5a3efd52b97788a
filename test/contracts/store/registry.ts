import assert from 'node:assert/strict'
import type { ApiKey } from '../../../src/core/api-key.ts'
import type { Relay } from '../../../src/core/relay.ts'
import type { Store } from '../../../src/store/store.ts'
import { aHandler, anEndpoint, anId, aSource, t0 } from '../../support/builders.ts'
import { itemsOf } from '../../support/registry.ts'
import type { Promised } from './promises.ts'

const aRelay = (given: Partial<Relay> = {}): Relay => {
  return { id: anId('rly'), name: 'home', tenant: 'acme', hash: 'ab'.repeat(32), createdAt: t0, ...given }
}
const aKey = (given: Partial<ApiKey> = {}): ApiKey => {
  return { id: anId('key'), name: 'ci', role: 'send', tenant: 'acme', hash: 'ab'.repeat(32), createdAt: t0, ...given }
}

/** What became of each: the code of its error, or that it was kept. */
async function codesOf(puts: readonly Promise<number>[]): Promise<readonly string[]> {
  const results = await Promise.allSettled(puts)
  return results.map((result) => (result.status === 'rejected' ? result.reason.code : 'kept'))
}

export function registryContract(promise: Promised): void {
  promise('keeps sources with their secrets, oldest first, until they are removed', async (store, under) => {
    const [first, second] = [aSource(), aSource({ provider: 'hmac', contentTypes: ['application/json'] })]
    await store.putEntry('source', second, 0)
    await store.putEntry('source', first, 0)
    const changed = { ...first, description: 'changed', secrets: [...first.secrets, ...second.secrets] }
    await store.putEntry('source', changed, 1)
    const again = await under.reopen()
    assert.deepEqual(await itemsOf(again, 'source'), [changed, second])
    await again.removeEntry('source', first.id)
    await again.removeEntry('source', 'src_nonsense')
    assert.deepEqual(await itemsOf(again, 'source'), [second])
  })

  promise('keeps API keys and relays until they are removed, each kind by itself', async (store, under) => {
    const keys = [aKey(), aKey({ tenant: null })]
    const relay = aRelay()
    for (const key of keys) await store.putEntry('key', key, 0)
    await store.putEntry('relay', relay, 0)
    const again = await under.reopen()
    assert.deepEqual([await itemsOf(again, 'key'), await itemsOf(again, 'relay')], [keys, [relay]])
    await again.removeEntry('relay', keys[0]!.id)
    await again.removeEntry('key', keys[0]!.id)
    assert.deepEqual([await itemsOf(again, 'key'), await itemsOf(again, 'relay')], [keys.slice(1), [relay]])
  })

  promise('answers the version of an entry with every put, and lists it', async (store, under) => {
    const endpoint = anEndpoint()
    assert.equal(await store.putEntry('endpoint', endpoint, 0), 1)
    assert.equal(await store.putEntry('endpoint', { ...endpoint, description: 'changed' }, 1), 2)
    const again = await under.reopen()
    assert.deepEqual(await again.listEntries('endpoint'), [
      { item: { ...endpoint, description: 'changed' }, version: 2 },
    ])
  })

  promise('refuses a put with a version that is not the one kept, and changes nothing', async (store) => {
    const entries = [
      ['endpoint', anEndpoint()],
      ['source', aSource()],
      ['relay', aRelay()],
      ['key', aKey()],
    ] as const
    for (const [kind, item] of entries) {
      assert.deepEqual(await codesOf([store.putEntry(kind, item, 1)]), ['conflict'], `${kind}: it is not there yet`)
      await store.putEntry(kind, item, 0)
      const puts = [0, 1, 1, 3].map((version) => store.putEntry(kind, { ...item, createdAt: t0 + 1 }, version))
      assert.deepEqual(await codesOf(puts), ['conflict', 'kept', 'conflict', 'conflict'], kind)
      assert.deepEqual(await store.listEntries(kind), [{ item: { ...item, createdAt: t0 + 1 }, version: 2 }])
      await store.removeEntry(kind, item.id)
      assert.deepEqual(await codesOf([store.putEntry(kind, item, 2)]), ['conflict'], `${kind}: it was removed`)
      assert.deepEqual(await store.listEntries(kind), [])
    }
    assert.deepEqual(store.health(), { writable: true, problem: null })
  })

  promise('never uses the id of a removed endpoint again', async (store, under) => {
    const endpoint = anEndpoint()
    await store.putEntry('endpoint', endpoint, 0)
    await store.removeEntry('endpoint', endpoint.id)
    assert.deepEqual(await codesOf([store.putEntry('endpoint', endpoint, 0)]), ['conflict'])
    const again = await under.reopen()
    assert.deepEqual(await codesOf([again.putEntry('endpoint', endpoint, 0)]), ['conflict'])
  })

  promise('refuses the name of another source, and keeps what else was put at the same time', async (store) => {
    const [first, other] = [aSource({ name: 'main' }), aSource({ name: 'other' })]
    await store.putEntry('source', first, 0)
    const puts = [
      store.putEntry('source', other, 0),
      store.putEntry('source', aSource({ name: 'main', tenant: 'globex' }), 0),
      store.putEntry('source', { ...first, description: 'changed' }, 1),
    ]
    assert.deepEqual(await codesOf(puts), ['kept', 'conflict', 'kept'])
    assert.deepEqual(await itemsOf(store, 'source'), [{ ...first, description: 'changed' }, other])
    assert.deepEqual(store.health(), { writable: true, problem: null })
  })

  promise('a source may be renamed, and its old name taken by another', async (store) => {
    const first = aSource({ name: 'main' })
    await store.putEntry('source', first, 0)
    await store.putEntry('source', { ...first, name: 'renamed' }, 1)
    await store.putEntry('source', aSource({ name: 'main' }), 0)
    assert.deepEqual(
      (await itemsOf(store, 'source')).map(({ name }) => name),
      ['renamed', 'main'],
    )
  })

  promise(
    'the names of relays and handlers are unique within a tenant, and free again after a removal',
    async (store) => {
      const relay = aRelay()
      const relays = [relay, aRelay({ tenant: 'globex' }), aRelay()]
      assert.deepEqual(await codesOf(relays.map((each) => store.putEntry('relay', each, 0))), [
        'kept',
        'kept',
        'conflict',
      ])
      const handler = aHandler({ tenant: 'acme', handler: 'invoice' })
      const handlers = [handler, aHandler({ tenant: 'globex', handler: 'invoice' }), { ...handler, id: anId('ep') }]
      const puts = handlers.map((each) => store.putEntry('endpoint', each, 0))
      assert.deepEqual(await codesOf(puts), ['kept', 'kept', 'conflict'])
      await store.removeEntry('relay', relay.id)
      await store.removeEntry('endpoint', handler.id)
      const again = [
        store.putEntry('relay', aRelay(), 0),
        store.putEntry('endpoint', { ...handler, id: anId('ep') }, 0),
      ]
      assert.deepEqual(await codesOf(again), ['kept', 'kept'])
    },
  )

  promise('API keys and endpoints that are no handlers may have the same name', async (store) => {
    const keys = [aKey(), aKey()].map((key) => store.putEntry('key', key, 0))
    const endpoints = [anEndpoint(), anEndpoint()].map((endpoint) => store.putEntry('endpoint', endpoint, 0))
    assert.deepEqual(await codesOf([...keys, ...endpoints]), ['kept', 'kept', 'kept', 'kept'])
  })

  promise(
    'raises the version of the registry with every put and every removal, and with nothing else',
    async (store, under) => {
      const versions = [await versionOf(store)]
      const note = async (version = versionOf(store)) => versions.push(await version)
      const source = aSource()
      await store.putEntry('source', source, 0)
      await note()
      await store.putEntry('key', aKey(), 0)
      await note()
      await store.putEntry('source', { ...source, description: 'changed' }, 1)
      await note()
      await store.removeEntry('source', source.id)
      await note()
      assert.ok(
        versions.every((version, index) => index === 0 || version > versions[index - 1]!),
        `${versions}`,
      )
      await codesOf([store.putEntry('source', source, 7)])
      await store.removeEntry('source', source.id)
      assert.equal(await versionOf(store), versions.at(-1))
      assert.equal(await versionOf(await under.reopen()), versions.at(-1))
    },
  )
}

async function versionOf(store: Store): Promise<number> {
  return (await store.beat()).registryVersion
}
