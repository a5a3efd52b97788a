import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { createClient } from 'redis'
import { RedisConnection } from '../../src/shared-state/redis-connection.ts'
import { RedisState } from '../../src/shared-state/redis-state.ts'
import { callMsMax, type SharedState } from '../../src/shared-state/shared-state.ts'
import { sharedStateContract } from '../contracts/shared-state.ts'
import { eventually } from '../support/eventually.ts'
import { openLinkProxy } from '../support/link-proxy.ts'
import { aKeyPrefix, anOwnRedis, noOwnRedis, noRedis } from '../support/redis.ts'

const hourMs = 3_600_000

async function openAt(t: TestContext, url: string, prefix = 'posthorn:test:'): Promise<SharedState> {
  const state = await RedisState.open(url, prefix)
  t.after(() => state.close())
  return state
}

/** It connects in the background. */
async function untilAnswered(state: SharedState): Promise<void> {
  await eventually('Redis answers', async () => state.read(['a']).catch(() => null))
}

describe('Redis', { skip: noRedis() ?? false }, () => {
  sharedStateContract('Redis', async (t) => {
    const keys = aKeyPrefix()
    t.after(() => keys.drop())
    return async () => {
      const state = await openAt(t, keys.url, keys.prefix)
      await untilAnswered(state)
      return state
    }
  })
})

describe('a Redis in trouble', { skip: noOwnRedis() ?? false }, () => {
  test('that is away at the start keeps nobody waiting, and is used when it is there', async (t) => {
    const redis = await anOwnRedis(t)
    await redis.stop()
    const state = await openAt(t, redis.url)
    await assert.rejects(state.read(['a']))
    await redis.start()
    await untilAnswered(state)
    assert.deepEqual(await state.swap([{ key: 'a', from: null, to: 'one', ttlMs: hourMs }]), [{ swapped: true }])
  })

  test('that is killed and comes back empty has lost what it knew, and goes on', async (t) => {
    const redis = await anOwnRedis(t)
    const state = await openAt(t, redis.url)
    await untilAnswered(state)
    await state.swap([{ key: 'a', from: null, to: 'one', ttlMs: hourMs }])
    await redis.kill()
    await assert.rejects(state.read(['a']))
    await redis.start()
    await untilAnswered(state)
    const swap = { key: 'a', from: 'one', to: 'two', ttlMs: hourMs }
    assert.deepEqual(await state.swap([swap]), [{ swapped: false, found: null }])
  })

  test('that does not answer fails each call in time, and is connected to anew', async (t) => {
    const redis = await anOwnRedis(t)
    const link = await openLinkProxy(() => redis.port)
    t.after(() => link.close())
    const state = await openAt(t, `redis://127.0.0.1:${link.port}`)
    await untilAnswered(state)
    const before = link.accepted()
    link.shape({ dark: ['up', 'down'] })
    await assert.rejects(state.read(['a']), new RegExp(`Redis did not answer within ${callMsMax} ms`))
    link.shape({ dark: [] })
    await untilAnswered(state)
    assert.ok(link.accepted() > before, 'the dead connection was kept')
  })

  test('that is slow and answers is used', async (t) => {
    const redis = await anOwnRedis(t)
    const link = await openLinkProxy(() => redis.port)
    t.after(() => link.close())
    link.shape({ roundTripMs: callMsMax / 4 })
    const state = await openAt(t, `redis://127.0.0.1:${link.port}`)
    await untilAnswered(state)
    const connections = link.accepted()
    const swap = { key: 'a', from: null, to: 'one', ttlMs: hourMs }
    assert.deepEqual(await state.swap([swap]), [{ swapped: true }])
    assert.deepEqual(await state.read(['a']), ['one'])
    assert.equal(link.accepted(), connections)
  })

  test('that refuses the password says so, keeps nobody waiting, and is used when it takes it', async (t) => {
    const redis = await anOwnRedis(t, { settings: { requirepass: 'right' } })
    const url = (password: string) => redis.url.replace('//', `//:${password}@`)
    assert.match((await RedisConnection.whyNot(url('wrong'))) ?? '', /WRONGPASS/)
    assert.match((await RedisConnection.whyNot(redis.url)) ?? '', /NOAUTH/)
    const state = await openAt(t, url('wrong'))
    await assert.rejects(state.read(['a']))
    const admin = createClient({ url: url('right') })
    await admin.connect()
    await admin.configSet('requirepass', 'wrong')
    await admin.close()
    await untilAnswered(state)
  })

  test('that has become a replica is left: after a failover the name leads to another one', async (t) => {
    const [old, fresh] = [await anOwnRedis(t), await anOwnRedis(t)]
    let primary = old
    const link = await openLinkProxy(() => primary.port)
    t.after(() => link.close())
    const state = await openAt(t, `redis://127.0.0.1:${link.port}`)
    await untilAnswered(state)
    const admin = createClient({ url: old.url })
    await admin.connect()
    await admin.sendCommand(['REPLICAOF', '127.0.0.1', String(fresh.port)])
    await admin.close()
    primary = fresh
    const swap = { key: 'a', from: null, to: 'one', ttlMs: hourMs }
    await assert.rejects(state.swap([swap]), /READONLY/)
    const answer = await eventually('the new primary answers', () => state.swap([swap]).catch(() => null))
    assert.deepEqual(answer, [{ swapped: true }])
    const witness = await openAt(t, fresh.url)
    await untilAnswered(witness)
    assert.deepEqual(await witness.read(['a']), ['one'])
  })
})
