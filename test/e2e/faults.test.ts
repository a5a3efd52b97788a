import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { FaultScene } from '../support/fault-scene.ts'
import { noOwnPostgres } from '../support/postgres.ts'

describe('members under load', { skip: noOwnPostgres() ?? false }, () => {
  it('lose and repeat nothing when connections end, Postgres is killed, and they are restarted one by one', async (t) => {
    const scene = await FaultScene.open(t)
    for (const share of [0.3, 0.6, 1]) {
      await scene.arrived(60)
      await scene.terminate(share)
    }
    await scene.arrived(60)
    await scene.postgres.kill()
    await pause(300)
    await scene.postgres.start()
    for (const member of scene.members) {
      await scene.arrived(60)
      assert.equal(await member.server.stop(), 0, member.server.said().slice(-3_000))
      await scene.start(member)
    }
    await scene.arrived(60)
    await scene.check(t, { cuts: 0 })
  })

  it('repeat what was in flight and no more when one is killed, and another stopped for longer than its lease', async (t) => {
    const scene = await FaultScene.open(t)
    const [first, second] = [scene.members[0]!, scene.members[1]!]
    await scene.arrived(60)
    await first.server.kill()
    await scene.start(first)
    await scene.stopBeyondLease(second)
    await scene.arrived(60)
    await scene.check(t, { cuts: 2 })
  })
})
