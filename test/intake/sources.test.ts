import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { PosthornError } from '../../src/core/errors.ts'
import type { RegistryKind } from '../../src/core/registry.ts'
import { Sources } from '../../src/intake/sources.ts'
import type { Store } from '../../src/store/store.ts'
import { openStoreFile, tempFolder } from '../support/sqlite.ts'
import { aSource } from './providers/scene.ts'

async function opened(t: TestContext): Promise<{ file: string; store: Store; sources: Sources }> {
  const folder = await tempFolder()
  const file = join(folder.path, 'posthorn.db')
  const store = await openStoreFile(file)
  t.after(async () => {
    await store.close()
    await folder.remove()
  })
  return { file, store, sources: new Sources(store) }
}

describe('the sources', () => {
  test('are the same after a restart, secrets included', async (t) => {
    const { file, store, sources } = await opened(t)
    const signing = { header: 'x-sig', algorithm: 'sha512', encoding: 'base64', prefix: 'v1=' } as const
    const hmac = { ...signing, timestampHeader: 'x-time', idHeader: null }
    const full = aSource('hmac', { hmac, key: '{x-key}', contentTypes: ['text/plain'], url: null, tenant: 'acme' })
    await sources.add(full)
    await sources.add(aSource('none', { id: 'src_2', name: 'other', secrets: [] }))
    await store.close()
    const again = await openStoreFile(file)
    t.after(() => again.close())
    const reloaded = new Sources(again)
    await reloaded.load()
    assert.deepEqual(reloaded.get(full.id), full)
    assert.deepEqual(reloaded.find('main')?.source, full)
    assert.equal(reloaded.list().length, 2)
  })

  test('of a tenant are so many and no more', async (t) => {
    const { store } = await opened(t)
    const sources = new Sources(store, { sourcesMax: 1 })
    await sources.add(aSource('none', { id: 'src_1', name: 'one', tenant: 'acme', secrets: [] }))
    const second = aSource('none', { id: 'src_2', name: 'two', tenant: 'acme', secrets: [] })
    await assert.rejects(sources.add(second), {
      code: 'conflict',
      message: 'The tenant acme has 1 sources, and that is the limit (POSTHORN_TENANT_SOURCES_MAX). Delete some first.',
    })
    await sources.add({ ...second, tenant: 'other' })
    assert.equal((await store.listEntries('source')).length, 2)
  })

  test('lose none of two changes at once', async (t) => {
    const { sources } = await opened(t)
    await sources.add(aSource('github'))
    await Promise.all([
      sources.update('src_1', (source) => ({ ...source, description: `${source.description}a` })),
      sources.update('main', (source) => ({ ...source, description: `${source.description}b` })),
    ])
    assert.equal(sources.get('main')?.description, 'ab')
  })

  test('have one source for a name, and it keeps its name', async (t) => {
    const { sources } = await opened(t)
    await sources.add(aSource('github'))
    const taken = sources.add(aSource('none', { id: 'src_2' }))
    await assert.rejects(taken, (error) => error instanceof PosthornError && error.code === 'conflict')
    await sources.update('main', (source) => ({ ...source, name: 'other', id: 'src_9' }))
    assert.deepEqual(
      sources.list().map(({ id, name }) => [id, name]),
      [['src_1', 'main']],
    )
  })

  test('are what the disk has, also when a change cannot be written', async (t) => {
    const { store } = await opened(t)
    const full = new PosthornError('store_full', 'The disk is full.')
    const failing = {
      putEntry: () => Promise.reject(full),
      removeEntry: () => Promise.reject(full),
      listEntries: <K extends RegistryKind>(kind: K) => store.listEntries(kind),
    }
    await new Sources(store).add(aSource('github'))
    const sources = new Sources(failing)
    await sources.load()
    await assert.rejects(sources.add(aSource('none', { id: 'src_2', name: 'new' })), full)
    await assert.rejects(
      sources.update('main', (source) => ({ ...source, description: 'new' })),
      full,
    )
    await assert.rejects(sources.remove('main'), full)
    assert.deepEqual(sources.list(), [aSource('github')])
  })

  test('are gone when they were removed', async (t) => {
    const { sources } = await opened(t)
    await sources.add(aSource('github'))
    assert.equal(await sources.remove('main'), true)
    assert.equal(await sources.remove('main'), false)
    assert.equal(sources.find('main'), null)
    assert.equal(await sources.update('main', (source) => source), null)
  })
})
