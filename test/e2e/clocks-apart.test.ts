import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { clockShift } from '../support/clock-shift.ts'
import { FaultScene } from '../support/fault-scene.ts'
import { noOwnPostgres } from '../support/postgres.ts'

const hourMs = 3_600_000

describe('members whose clocks are an hour ahead and an hour behind', { skip: noOwnPostgres() ?? false }, () => {
  it('agree on what is due and on who has what in hand', async (t) => {
    const [ahead, behind] = [clockShift(t, '+1h'), clockShift(t, '-1h')]
    if (ahead === null || behind === null) return
    const scene = await FaultScene.open(t, { enter: (place) => [[], ahead, behind][place] ?? [] })
    const [right = 0, ...wrong] = await Promise.all(scene.members.map(({ url }) => clockOf(url)))
    assert.deepEqual(
      wrong.map((clock) => Math.round((clock - right) / hourMs)),
      [1, -1],
    )
    await scene.arrived(500)
    await scene.check(t, { cuts: 0 })
    for (const { server } of scene.members) assert.doesNotMatch(server.said(), /member\.(lapsed|fenced)/)
  })
})

async function clockOf(url: string): Promise<number> {
  const { headers } = await fetch(`${url}/healthz`)
  return Date.parse(headers.get('date') ?? '')
}
