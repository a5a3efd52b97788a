import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { claimDue, endAll, lease, only, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, delivered } from '../support/builders.ts'
import { noPostgres } from '../support/postgres.ts'
import { PostgresScene } from './postgres-scene.ts'
import { Writer } from './postgres-writer.ts'

const limits = { skip: noPostgres() ?? false, timeout: 60_000 }
/** What Postgres cannot keep, it keeps as something else. */
const lanes = { 'a NUL': 'key:a\u0000b', 'half a character': 'key:a\ud800b' }

for (const [what, lane] of Object.entries(lanes)) {
  describe(`a lane with ${what} in its key`, limits, () => {
    it('is locked by who appends as by who ends what was read back', async (t) => {
      const scene = await PostgresScene.open(t)
      const store = await scene.store()
      const endpoint = await withEndpoint(store)
      await store.append([anArrival(endpoint, { delivery: { lane } })])
      const head = only((await claimDue(store, endpoint)).claims)
      const [a, b] = [await Writer.open(scene), await Writer.open(scene)]
      await a.begin()
      await a.append([anArrival(endpoint, { delivery: { lane } })])
      const ending = b.commit([delivered(head)])
      await scene.untilBlocked(1)
      await a.end()
      assert.equal((await ending)[0]?.kind, 'applied')
      assert.equal((await endAll(store, endpoint)).length, 1, 'the second has its turn')
    })

    it('is one lane, whether a delivery was read back or not', async (t) => {
      const scene = await PostgresScene.open(t)
      const store = await scene.store()
      const endpoint = await withEndpoint(store)
      const arrivals = [1, 2, 3].map(() => anArrival(endpoint, { delivery: { lane, leaseEndsAt: lease } }))
      await store.append(arrivals)
      const [head, second] = await Promise.all(
        arrivals.slice(0, 2).map(async ({ deliveries }) => (await store.getDelivery(deliveries[0]!.id))!.delivery),
      )
      assert.equal(head?.status, 'processing')
      const asSent = { ...delivered({ delivery: { ...head, lane } } as never), claimNext: null }
      const asRead = { ...delivered({ delivery: second } as never), claimNext: lease, follows: true }
      const results = await store.commit([asSent, asRead])
      assert.ok(results[0]?.kind === 'applied' && results[1]?.kind === 'applied')
      assert.equal(results[1].next?.delivery.id, arrivals[2]!.deliveries[0]!.id)
    })

    it('is kept of what came for an endpoint that is gone', async (t) => {
      const scene = await PostgresScene.open(t)
      const store = await scene.store()
      const endpoint = await withEndpoint(store)
      await store.removeEntry('endpoint', endpoint.id)
      const arrival = anArrival(endpoint, { delivery: { lane } })
      assert.equal((await store.append([arrival])).kind, 'kept')
      assert.equal((await store.getDelivery(arrival.deliveries[0]!.id))?.delivery.lane, 'key:a\ufffdb')
    })
  })
}
