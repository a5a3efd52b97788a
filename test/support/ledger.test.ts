import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Arrived, brokenPromises, type History, type Sent } from './ledger.ts'

const sent = (n: number, given: Partial<Sent> = {}): Sent => ({
  n,
  key: 'k',
  sha256: `hash${n}`,
  eventId: `evt_${n}`,
  sentAt: 10 * n,
  ackedAt: 10 * n + 5,
  ...given,
})
const arrived = (n: number, given: Partial<Arrived> = {}): Arrived => ({
  endpoint: 'a',
  webhookId: `evt_${n}`,
  deliveryId: `dlv_${n}`,
  attempt: 1,
  sha256: `hash${n}`,
  n,
  statusCode: 200,
  ...given,
})
const history = (given: Partial<History>): History => ({
  sent: [sent(1), sent(2)],
  arrived: [arrived(1), arrived(2)],
  endpoints: { a: 'key' },
  dead: [],
  overlaps: [],
  inFlightAtCrashes: 0,
  ...given,
})

describe('the checker of ledgers', () => {
  it('finds nothing wrong with a clean history', () => {
    assert.deepEqual(brokenPromises(history({})), [])
  })

  const forged: [string, RegExp, Partial<History>][] = [
    ['a lost event', /^lost/, { arrived: [arrived(1)] }],
    ['an event that only ever failed', /^lost/, { arrived: [arrived(1), arrived(2, { statusCode: 503 })] }],
    ['an event nobody sent', /^phantom/, { arrived: [arrived(1), arrived(2), arrived(3)] }],
    ['altered bytes', /^altered/, { arrived: [arrived(1), arrived(2, { sha256: 'x' })] }],
    [
      'an id that changed between tries',
      /^altered/,
      { arrived: [arrived(1), arrived(2), arrived(2, { webhookId: 'evt_9' })], inFlightAtCrashes: 1 },
    ],
    ['events that overtake', /^overtaken/, { arrived: [arrived(2), arrived(1)] }],
    [
      'a repeat after a later one',
      /^overtaken/,
      { arrived: [arrived(1), arrived(2), arrived(1)], inFlightAtCrashes: 9 },
    ],
    ['two tries of a lane at once', /^overlapping/, { overlaps: ['a k'] }],
    [
      'events of two keys that overtake in a lane of the whole endpoint',
      /^overtaken/,
      { endpoints: { a: 'endpoint' }, sent: [sent(1), sent(2, { key: 'l' })], arrived: [arrived(2), arrived(1)] },
    ],
    ['too many repeats', /^repeated/, { arrived: [arrived(1), arrived(1), arrived(2)] }],
  ]
  for (const [what, expected, given] of forged) {
    it(`finds ${what}`, () => {
      const problems = brokenPromises(history(given))
      assert.ok(problems.length > 0)
      assert.match(problems.join('\n'), expected)
    })
  }

  it('lets events pass in either order that were sent before either was acknowledged', () => {
    const together = [sent(1, { ackedAt: 50 }), sent(2, { ackedAt: 40 })]
    assert.deepEqual(brokenPromises(history({ sent: together, arrived: [arrived(2), arrived(1)] })), [])
  })

  it('lets a dead letter, an unanswered event and repeats in flight pass', () => {
    const given = {
      sent: [sent(1), sent(2), sent(3, { eventId: null })],
      arrived: [arrived(1), arrived(1)],
      dead: [{ eventId: 'evt_2', endpoint: 'a' }],
      inFlightAtCrashes: 1,
    }
    assert.deepEqual(brokenPromises(history(given)), [])
  })
})
