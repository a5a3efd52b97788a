import assert from 'node:assert/strict'
import type { ApiKey } from '../../../src/core/api-key.ts'
import { anId, aSource, t0 } from '../../support/builders.ts'
import type { Promised } from './promises.ts'

export function registryContract(promise: Promised): void {
  promise('keeps sources with their secrets, oldest first, until they are removed', async (store, under) => {
    const [first, second] = [aSource(), aSource({ provider: 'hmac', contentTypes: ['application/json'] })]
    await store.putSource(second)
    await store.putSource(first)
    const changed = { ...first, description: 'changed', secrets: [...first.secrets, ...second.secrets] }
    await store.putSource(changed)
    const again = await under.reopen()
    assert.deepEqual(await again.listSources(), [changed, second])
    await again.removeSource(first.id)
    await again.removeSource('src_nonsense')
    assert.deepEqual(await again.listSources(), [second])
  })

  promise('refuses the name of another source, and keeps what else was put at the same time', async (store) => {
    const [first, other] = [aSource({ name: 'main' }), aSource({ name: 'other' })]
    await store.putSource(first)
    const results = await Promise.allSettled([
      store.putSource(other),
      store.putSource(aSource({ name: 'main' })),
      store.putSource({ ...first, description: 'changed' }),
    ])
    assert.deepEqual(
      results.map((result) => (result.status === 'rejected' ? result.reason.code : result.status)),
      ['fulfilled', 'conflict', 'fulfilled'],
    )
    const kept = await store.listSources()
    assert.deepEqual(kept, [{ ...first, description: 'changed' }, other])
    assert.deepEqual(store.health(), { writable: true, problem: null })
  })

  promise('a source may be renamed, and its old name taken by another', async (store) => {
    const first = aSource({ name: 'main' })
    await store.putSource(first)
    await store.putSource({ ...first, name: 'renamed' })
    await store.putSource(aSource({ name: 'main' }))
    assert.deepEqual(
      (await store.listSources()).map(({ name }) => name),
      ['renamed', 'main'],
    )
  })

  promise('keeps API keys until they are removed', async (store, under) => {
    const facts = { role: 'send', tenant: 'acme', hash: 'ab'.repeat(32), createdAt: t0 } as const
    const keys: readonly ApiKey[] = ['a', 'b'].map((name) => ({ id: anId('key'), name, ...facts }))
    for (const key of keys) await store.putApiKey(key)
    const again = await under.reopen()
    assert.deepEqual(await again.listApiKeys(), keys)
    await again.removeApiKey(keys[0]!.id)
    assert.deepEqual(await again.listApiKeys(), keys.slice(1))
  })
}
