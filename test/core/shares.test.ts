import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { rankOf, shareOf } from '../../src/core/shares.ts'

const names = fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 12 })

describe('shares of a limit', () => {
  it('are the limit in sum, and differ by one at most', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000 }), names, fc.string(), (limit, members, endpointId) => {
        const shares = members.map((member) => shareOf(limit, rankOf(endpointId, member, members), members.length))
        assert.equal(
          shares.reduce((sum, share) => sum + share, 0),
          limit,
        )
        assert.ok(Math.max(...shares) - Math.min(...shares) <= 1)
      }),
    )
  })

  it('are the whole limit for who is alone', () => {
    assert.equal(shareOf(7, rankOf('ep', 'a', ['a']), 1), 7)
  })

  it('give every member a rank of its own, in whatever order the members are known', () => {
    fc.assert(
      fc.property(names, fc.string(), (members, endpointId) => {
        const ranks = members.map((member) => rankOf(endpointId, member, members.toReversed()))
        assert.deepEqual(
          ranks.toSorted((a, b) => a - b),
          members.map((_, at) => at),
        )
      }),
    )
  })

  it('do not leave what is left over to the same member at every endpoint', () => {
    const members = ['mbr_1', 'mbr_2', 'mbr_3']
    const firsts = Array.from({ length: 300 }, (_, at) => members.find((one) => rankOf(`ep_${at}`, one, members) === 0))
    for (const member of members) assert.ok(firsts.filter((one) => one === member).length > 50, member)
  })
})
