import assert from 'node:assert/strict'
import { it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { closedBreaker } from '../../../src/core/circuit-breaker.ts'
import { freshCondition } from '../../../src/core/condition.ts'
import type { Beat, MemberHint, MemberLease } from '../../../src/store/cluster-store.ts'
import type { Claim } from '../../../src/store/pipeline-store.ts'
import type { Store } from '../../../src/store/store.ts'
import { anArrival, delivered, t0 } from '../../support/builders.ts'
import { claimDue, only, withEndpoint } from './promises.ts'

/** Stores of several processes that share what they keep. Each is opened as a process would open its own. */
export type MembersUnderTest = Readonly<{
  open(given?: Readonly<{ lease?: MemberLease }>): Promise<Store>
  destroy(): Promise<void>
}>

/** So short that a test can wait until it has lapsed. */
const shortLease: MemberLease = { leaseMs: 1_500, beatEveryMs: 100 }
const beatsMax = 100
/** Of rows: far beyond everything here. */
const rowLease = t0 + 9e9

/** What several members of one store can rely on: every adapter that has several passes this suite unchanged. */
export function manyMembersContract(open: () => Promise<MembersUnderTest>): void {
  const promise = (sentence: string, check: (under: MembersUnderTest) => Promise<void>) => {
    it(sentence, { timeout: 60_000 }, async () => {
      const under = await open()
      try {
        await check(under)
      } finally {
        await under.destroy()
      }
    })
  }

  promise('a member knows the others, the oldest first, and agrees with them on the leader', async (under) => {
    const [a, b] = [await under.open(), await under.open()]
    const ids = [(await a.join()).id, (await b.join()).id]
    const [ofA, ofB] = [await a.beat(), await b.beat()]
    assert.deepEqual([ofA.members, ofB.members], [ids, ids])
    assert.equal(ofA.leader, ofB.leader)
    assert.ok(ids.includes(ofA.leader))
  })

  promise('the handlers of a member are known to the others after its beat', async (under) => {
    const [a, b] = [await under.open(), await under.open()]
    await a.join()
    await b.join()
    await a.beat({ handlers: ['ep_1'], isWorking: true })
    const { handlersElsewhere } = await b.beat({ handlers: ['ep_2'], isWorking: true })
    assert.deepEqual(handlersElsewhere, ['ep_1'])
  })

  promise('what a member has in hand is listed for it, and for no other', async (under) => {
    const [a, b] = [await under.open(), await under.open()]
    const endpoint = await withEndpoint(a)
    await a.join()
    await b.join()
    await a.append([anArrival(endpoint), anArrival(endpoint)])
    const claim = only((await claimDue(a, endpoint, { leaseEndsAt: rowLease, limit: 1 })).claims)
    const other = only((await claimDue(b, endpoint, { leaseEndsAt: rowLease })).claims)
    assert.deepEqual([await heldOf(a), await heldOf(b)], [[claim.delivery.id], [other.delivery.id]])
    await a.commit([delivered(claim)])
    assert.deepEqual([await heldOf(a), await heldOf(b)], [[], [other.delivery.id]])
  })

  promise('one that joins again is a new member, and what it held is free for the others', async (under) => {
    const [a, b] = [await under.open(), await under.open()]
    const endpoint = await withEndpoint(a)
    const { id: before } = await a.join()
    const { id: other } = await b.join()
    const claim = await claimOne(a, endpoint)
    const { id: after } = await a.join()
    assert.notEqual(after, before)
    assert.deepEqual((await a.beat()).members, [other, after])
    assert.equal((await claimOnceFree(b, endpoint)).delivery.id, claim.delivery.id)
    assert.deepEqual(await a.commit([delivered(claim)]), [{ kind: 'stale' }])
    assert.deepEqual(await heldOf(a), [])
  })

  promise('when one leaves, the others take its work at once', async (under) => {
    const [a, b] = [await under.open(), await under.open()]
    const endpoint = await withEndpoint(a)
    await a.join()
    const { id } = await b.join()
    const claim = await claimOne(a, endpoint)
    await a.leave()
    assert.deepEqual((await b.beat()).members, [id])
    assert.equal((await claimOnceFree(b, endpoint)).delivery.id, claim.delivery.id)
  })

  promise('one that does not beat is fenced and told so, and is a member again when it has joined', async (under) => {
    const [silent, alive] = [await under.open({ lease: shortLease }), await under.open({ lease: shortLease })]
    const endpoint = await withEndpoint(silent)
    const { id } = await silent.join()
    await alive.join()
    const claim = await claimOne(silent, endpoint)
    let isMember = true
    for (let beats = 0; beats < beatsMax && isMember; beats++) {
      assert.deepEqual(await heldOf(alive), [])
      isMember = (await beatLater(alive)).members.includes(id)
    }
    assert.equal(isMember, false)
    assert.equal((await claimOnceFree(alive, endpoint)).delivery.id, claim.delivery.id)
    assert.equal((await silent.beat()).isLost, true)
    await silent.join()
    assert.equal((await silent.beat()).isLost, false)
  })

  promise('a hint reaches the others', async (under) => {
    const [a, b] = [await under.open(), await under.open()]
    await a.join()
    await b.join()
    const endpoints = [await withEndpoint(a), await withEndpoint(a)] as const
    const [due, changed] = [endpoints[0].id, endpoints[1].id]
    // Both have had to do with them: of others a hint may get lost.
    for (const store of [a, b]) for (const endpoint of endpoints) await claimDue(store, endpoint)
    const heard = hints(b)
    // By a beat a member learns that it has somebody to tell.
    await a.beat()
    await until(
      () => heard.some(({ endpointIds }) => endpointIds.includes(due)),
      async () => a.hint('due', [due]),
    )
    await until(
      () => heard.some(({ conditionsOf }) => conditionsOf.includes(changed)),
      async () => a.hint('condition', [changed]),
    )
    assert.ok(heard.every(({ conditionsOf }) => !conditionsOf.includes(due)))
  })

  promise('every change of the registry is a hint to the others, and moves its version', async (under) => {
    const [a, b] = [await under.open(), await under.open()]
    await a.join()
    await b.join()
    const heard = hints(b)
    const { registryVersion } = await b.beat()
    await a.beat()
    // A hint may get lost, so there is a change for every time it is asked for.
    await until(
      () => heard.some(({ registry }) => registry),
      async () => void (await withEndpoint(a)),
    )
    assert.ok((await b.beat()).registryVersion > registryVersion)
  })

  promise('of the conditions that members put, the last is kept', async (under) => {
    const [a, b] = [await under.open(), await under.open()]
    const endpoint = await withEndpoint(a)
    await a.join()
    await b.join()
    const first = { ...freshCondition(endpoint.id), breaker: closedBreaker, lastError: 'first', lastErrorAt: t0 }
    const second = { ...first, lastError: 'second', lastErrorAt: t0 - 1 }
    await a.putConditions([first])
    await b.putConditions([second])
    assert.deepEqual(await a.listConditions(), [second])
    await a.putConditions([first])
    assert.deepEqual(await b.listConditions(), [first])
  })
}

async function beatLater(store: Store): Promise<Beat> {
  await pause(shortLease.beatEveryMs)
  return store.beat()
}

async function heldOf(store: Store): Promise<readonly string[]> {
  return (await store.listHeld()).map(({ id }) => id)
}

/** A new delivery, in the hands of this member. */
async function claimOne(store: Store, endpoint: Parameters<typeof claimDue>[1]): Promise<Claim> {
  await store.append([anArrival(endpoint)])
  return only((await claimDue(store, endpoint, { leaseEndsAt: rowLease })).claims)
}

/** What another has lost is free after some beats. */
async function claimOnceFree(store: Store, endpoint: Parameters<typeof claimDue>[1]): Promise<Claim> {
  for (let beats = 0; beats < beatsMax; beats++) {
    const { now } = await beatLater(store)
    const { claims } = await claimDue(store, endpoint, { now: now + 1_000, leaseEndsAt: rowLease })
    if (claims.length > 0) return only(claims)
  }
  throw new Error('nobody freed it')
}

function hints(store: Store): readonly MemberHint[] {
  const heard: MemberHint[] = []
  store.onHint((hint) => heard.push(hint))
  return heard
}

/** A hint may get lost: it is given again until it has arrived. */
async function until(holds: () => boolean, again: () => Promise<void>): Promise<void> {
  for (let times = 0; times < beatsMax && !holds(); times++) {
    await again()
    await pause(shortLease.beatEveryMs)
  }
  assert.ok(holds(), 'it did not arrive')
}
