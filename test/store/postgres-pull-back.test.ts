import assert from 'node:assert/strict'
import { it } from 'node:test'
import { withEndpoint } from '../contracts/store/promises.ts'
import { t0 } from '../support/builders.ts'
import { noPostgres } from '../support/postgres.ts'
import { PostgresScene } from './postgres-scene.ts'

it('a start with thousands of endpoints pulls their due times back in a few commits', {
  skip: noPostgres() ?? false,
}, async (t) => {
  const scene = await PostgresScene.open(t)
  const store = await scene.store()
  const endpoints = [await withEndpoint(store), await withEndpoint(store)]
  const commits = async () => Number((await scene.query('SELECT sum(seq) AS count FROM marks'))[0]?.count)
  const before = await commits()
  const requests = Array.from({ length: 4_000 }, (_, n) => ({
    endpointId: endpoints[n % 2]!.id,
    latestDueAt: t0,
    untriedDueAt: t0,
  }))
  await Promise.all(requests.map((request) => store.pullBack(request)))
  assert.ok((await commits()) - before <= 10)
})
