import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { RedisBus } from '../../src/shared-state/redis-bus.ts'
import { busContract, connected, listening, saidTo } from '../contracts/bus.ts'
import { openLinkProxy } from '../support/link-proxy.ts'
import { aKeyPrefix, anOwnRedis, noOwnRedis, noRedis } from '../support/redis.ts'

async function openAt(t: TestContext, url: string, channel = 'posthorn:test:bus') {
  const bus = await RedisBus.open(url, channel)
  t.after(() => bus.close())
  return bus
}

describe('Redis', { skip: noRedis() ?? false }, () => {
  busContract('Redis', async (t) => {
    const { url, prefix } = aKeyPrefix()
    return () => openAt(t, url, `${prefix}bus`)
  })
})

describe('a Redis in trouble', { skip: noOwnRedis() ?? false }, () => {
  test('that is away at the start, or is killed, takes nothing, and is used when it is there', async (t) => {
    const redis = await anOwnRedis(t)
    await redis.stop()
    const [here, there] = [listening(await openAt(t, redis.url)), listening(await openAt(t, redis.url))]
    assert.equal(await here.bus.publish(['lost']), false)
    await redis.start()
    await connected(here, there)
    await redis.kill()
    assert.equal(await here.bus.publish(['lost']), false)
    await redis.start()
    there.heard.length = 0
    await connected(here, there)
    assert.deepEqual(saidTo(there), [])
  })

  test('a connection that has died without a word is replaced at both ends, also where nobody publishes', async (t) => {
    const redis = await anOwnRedis(t)
    const link = await openLinkProxy(() => redis.port)
    t.after(() => link.close())
    const here = listening(await openAt(t, redis.url))
    const there = listening(await openAt(t, `redis://127.0.0.1:${link.port}`))
    await connected(here, there)
    const before = link.accepted()
    // What was connected stays dark for ever; only a new connection gets through.
    link.shape({ dark: ['up', 'down'] })
    await link.until(() => link.accepted() > before)
    link.shape({ dark: [] })
    there.heard.length = 0
    await connected(here, there)
  })
})
