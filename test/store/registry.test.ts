import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Source } from '../../src/core/source.ts'
import { Registry } from '../../src/store/registry.ts'
import type { Store } from '../../src/store/store.ts'
import { aSource } from '../support/builders.ts'
import { itemsOf } from '../support/registry.ts'
import { storeFor } from '../support/sqlite.ts'

/** A registry as one process has it, and what it says about changes. */
async function process(store: Store): Promise<{ sources: Registry<'source'>; said: string[] }> {
  const said: string[] = []
  const sources = new Registry(store, 'source', ({ kind, item, before }) => {
    said.push(`${kind} ${item.name}${before === null ? '' : ` was ${before.name}`}`)
  })
  await sources.load()
  return { sources, said }
}

const describe =
  (text: string) =>
  (source: Source): Source => ({ ...source, description: `${source.description}${text}` })

test('says what was loaded, put and removed, and what it was before', async (t) => {
  const store = await storeFor(t)
  const source = aSource({ name: 'main' })
  await store.putEntry('source', source, 0)
  const { sources, said } = await process(store)
  await sources.update(source.id, (before) => ({ ...before, name: 'renamed' }))
  await sources.put(aSource({ name: 'other' }))
  assert.equal((await sources.remove(source.id))?.name, 'renamed')
  assert.equal(await sources.remove(source.id), null)
  assert.deepEqual(said, ['loaded main', 'put renamed was main', 'put other', 'removed renamed was renamed'])
})

test('a change on top of a stale entry reads again and loses neither change', async (t) => {
  const store = await storeFor(t)
  const source = aSource({ description: '' })
  await store.putEntry('source', source, 0)
  const [one, other] = [await process(store), await process(store)]
  await one.sources.update(source.id, describe('a'))
  await Promise.all([
    one.sources.update(source.id, describe('b')),
    other.sources.update(source.id, describe('c')),
    other.sources.update(source.id, describe('d')),
  ])
  const [kept] = await itemsOf(store, 'source')
  assert.deepEqual([...(kept?.description ?? '')].sort(), ['a', 'b', 'c', 'd'])
})

test('a change of an entry that another process has removed finds nothing', async (t) => {
  const store = await storeFor(t)
  const source = aSource({ name: 'main' })
  await store.putEntry('source', source, 0)
  const [one, other] = [await process(store), await process(store)]
  await one.sources.remove(source.id)
  assert.equal(await other.sources.update(source.id, describe('late')), null)
  assert.deepEqual(other.said, ['loaded main', 'removed main was main'])
})

test('a name that is taken stays a conflict, and brings what the other process has put', async (t) => {
  const store = await storeFor(t)
  const [one, other] = [await process(store), await process(store)]
  await one.sources.put(aSource({ name: 'main' }))
  await assert.rejects(other.sources.put(aSource({ name: 'main' })), { code: 'conflict' })
  assert.deepEqual(other.said, ['put main'])
})

test('a refresh takes over what others have put and removed, and tells of nothing else', async (t) => {
  const store = await storeFor(t)
  const [gone, changed, same] = [aSource({ name: 'gone' }), aSource({ name: 'changed' }), aSource({ name: 'same' })]
  for (const source of [gone, changed, same]) await store.putEntry('source', source, 0)
  const { sources, said } = await process(store)
  said.length = 0
  await store.removeEntry('source', gone.id)
  await store.putEntry('source', describe('new')(changed), 1)
  await store.putEntry('source', aSource({ name: 'added' }), 0)
  await sources.refresh()
  assert.deepEqual(said, ['removed gone was gone', 'put changed was changed', 'put added'])
  assert.deepEqual(sources.list(), await itemsOf(store, 'source'))
})
