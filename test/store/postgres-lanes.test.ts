import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { type Delivery, type Failed, newborn, type Pending, type Settled } from '../../src/core/delivery.ts'
import type { HttpEndpoint } from '../../src/core/endpoint.ts'
import { ended, replayed } from '../../src/core/lifecycle.ts'
import type { Arrival, Change, ChangeResult, Claim } from '../../src/store/pipeline-store.ts'
import type { Store } from '../../src/store/store.ts'
import { claimDue, endAll, lease, only, withEndpoint } from '../contracts/store/promises.ts'
import { anArrival, aReplay, delivered, retryAt, t0 } from '../support/builders.ts'
import { noPostgres } from '../support/postgres.ts'
import { randomFrom } from '../support/random.ts'
import { PostgresScene } from './postgres-scene.ts'
import { Writer } from './postgres-writer.ts'

const limits = { skip: noPostgres() ?? false, timeout: 60_000 }
const lane = 'key:a'

type Scenery = Readonly<{ scene: PostgresScene; store: Store; endpoint: HttpEndpoint }>
type Act = (writer: Writer) => Promise<unknown>
/** `left`: how many are alive then; one that comes second may be stale, and then it depends. */
type Race = Readonly<{ acts: readonly [Act, Act]; left?: number }>

async function scenery(t: TestContext): Promise<Scenery> {
  const scene = await PostgresScene.open(t)
  const store = await scene.store()
  return { scene, store, endpoint: await withEndpoint(store) }
}

/** Each lane that has rows has one head, and that is the first. */
async function oneHead(scene: PostgresScene): Promise<void> {
  const broken = await scene.query(
    `SELECT lane, count(*)::int AS rows, count(due_at)::int AS heads,
       (array_agg(due_at IS NOT NULL ORDER BY position))[1] AS is_first
     FROM live WHERE lane IS NOT NULL GROUP BY endpoint, lane
     HAVING count(due_at) <> 1 OR NOT (array_agg(due_at IS NOT NULL ORDER BY position))[1]`,
  )
  assert.deepEqual(broken, [])
}

const inLane = (endpoint: HttpEndpoint): Arrival => anArrival(endpoint, { delivery: { lane } })
const change = (to: Delivery): Change => ({ to, attempt: null, claimNext: null })
const appends =
  (arrival: Arrival): Act =>
  (writer) =>
    writer.append([arrival])
const commits =
  (...changes: Change[]): Act =>
  (writer) =>
    writer.commit(changes)

/** A lane of this length whose head is in hand. */
async function aLane({ store, endpoint }: Scenery, length: number) {
  const arrivals = Array.from({ length }, () => inLane(endpoint))
  await store.append(arrivals)
  const head = only((await claimDue(store, endpoint)).claims)
  const rest = await Promise.all(arrivals.slice(1).map(({ deliveries }) => read<Pending>(store, deliveries[0]!.id)))
  return { head, rest }
}

async function read<T extends Delivery>(store: Store, id: string): Promise<T> {
  return (await store.getDelivery(id))!.delivery as T
}

async function anEnded({ store, endpoint }: Scenery): Promise<Settled> {
  const arrival = inLane(endpoint)
  await store.append([arrival])
  assert.equal((await endAll(store, endpoint)).length, 1)
  return read<Settled>(store, arrival.deliveries[0]!.id)
}

const races: Readonly<Record<string, (scenery: Scenery) => Promise<Race>>> = {
  'two appends to an empty lane': async ({ endpoint }) => {
    return { acts: [appends(inLane(endpoint)), appends(inLane(endpoint))], left: 2 }
  },
  'an append and the end of the head': async (given) => {
    const { head } = await aLane(given, 1)
    return { acts: [appends(inLane(given.endpoint)), commits(delivered(head))], left: 1 }
  },
  'the cancel of the second and the end of the first': async (given) => {
    const { head, rest } = await aLane(given, 3)
    return { acts: [commits(change(ended(rest[0]!, 'cancelled', t0))), commits(delivered(head))] }
  },
  'a replay and an append to the empty lane': async (given) => {
    const dead = await anEnded(given)
    return { acts: [commits(change(replayed(dead, t0))), appends(inLane(given.endpoint))], left: 2 }
  },
  'a replay and the last end': async (given) => {
    const dead = await anEnded(given)
    const { head } = await aLane(given, 1)
    return { acts: [commits(change(replayed(dead, t0))), commits(delivered(head))], left: 1 }
  },
  'two replays into an empty lane': async (given) => {
    const dead = [await anEnded(given), await anEnded(given)]
    return {
      acts: [commits(change(replayed(dead[0]!, t0))), commits(change(replayed(dead[1]!, t0)))],
      left: 2,
    }
  },
  'a chain behind the head and the cancel of its second': async (given) => {
    const { head, rest } = await aLane(given, 3)
    const chain = rest.map(({ dueAt: _, ...facts }): Change => {
      const inTurn = { delivery: { ...facts, status: 'processing', leaseEndsAt: 0 } } as unknown as Claim
      return { ...delivered(inTurn), follows: true }
    })
    // Whoever comes second: either the cancel is stale, or the chain breaks where the cancelled one was.
    const cancel = commits(change(ended(rest[0]!, 'cancelled', t0)))
    return { acts: [commits(delivered(head), ...chain), cancel] }
  },
}

describe('a lane has one head after', limits, () => {
  for (const [name, prepare] of Object.entries(races)) {
    for (const order of ['one way', 'the other way'] as const) {
      it(`${name}, ${order}`, async (t) => {
        const given = await scenery(t)
        const { acts, left } = await prepare(given)
        const [first, second] = order === 'one way' ? acts : acts.toReversed()
        const [a, b] = [await Writer.open(given.scene), await Writer.open(given.scene)]
        await a.begin()
        await first!(a)
        const waiting = second!(b)
        await given.scene.untilBlocked(1)
        await a.end()
        await waiting
        await oneHead(given.scene)
        const [{ count }] = (await given.scene.query<{ count: number }>('SELECT count(*)::int FROM live')) as [never]
        assert.equal((await endAll(given.store, given.endpoint)).length, count, 'all that waits gets its turn')
        if (left !== undefined) assert.equal(count, left)
      })
    }
  }

  it('a step of a replay and an append, whichever comes first', async (t) => {
    const given = await scenery(t)
    const { scene, store, endpoint } = given
    for (const isReplayFirst of [true, false]) {
      const dead = await anEnded(given)
      const replay = await store.createReplay(aReplay({ kind: 'deliveries', filter: { eventId: dead.eventId } }))
      const step = () => store.stepReplay({ id: replay.id, limit: 10, now: t0, recover: null, newIds: [] })
      const [writer, holder] = [await Writer.open(scene), await scene.other()]
      await holder.query('BEGIN')
      // Inside of its call, behind the slots.
      if (isReplayFirst) await holder.query('SELECT FROM replays WHERE id = $1 FOR UPDATE', [replay.id])
      else await writer.begin()
      const first = isReplayFirst ? step() : writer.append([inLane(endpoint)])
      if (isReplayFirst) await scene.untilBlocked(1)
      else await first
      const second = isReplayFirst ? writer.append([inLane(endpoint)]) : step()
      await scene.untilBlocked(isReplayFirst ? 2 : 1)
      await holder.query('COMMIT')
      if (!isReplayFirst) await writer.end()
      await Promise.all([first, second])
      await oneHead(scene)
      assert.equal((await endAll(store, endpoint)).length, 2)
    }
  })
})

describe('a lane without a head', limits, () => {
  it('is counted, though nothing can make one', async (t) => {
    const { scene, store, endpoint } = await scenery(t)
    await store.append([inLane(endpoint), inLane(endpoint)])
    await scene.query('UPDATE live SET due_at = NULL')
    assert.equal(await store.headlessLanes(), 1)
  })
})

describe('three members on many lanes', limits, () => {
  it('never try two of a lane at once, keep its order, and leave none stuck', async (t) => {
    const { scene, store, endpoint } = await scenery(t)
    const members = [store, await scene.store(), await scene.store()]
    const ledger = new LaneLedger()
    const random = randomFrom(200)
    const waiting: string[] = []
    const dead: string[] = []
    let isOver = false

    async function publish(member: Store, lanes: readonly string[]): Promise<void> {
      while (!isOver) {
        if (ledger.open > 1_200) {
          await pause(5)
          continue
        }
        const some = lanes.filter(() => random() < 0.2)
        const arrivals = some.map((name) =>
          anArrival(endpoint, { delivery: { lane: name, leaseEndsAt: random() < 0.5 ? lease : null } }),
        )
        arrivals.forEach(({ deliveries: [delivery] }) => {
          ledger.accepted(delivery!.lane!, delivery!.id)
        })
        const appended = await member.append(arrivals)
        assert.ok(appended.kind === 'kept')
        const born = appended.items.flatMap(({ claimed }, at) => (claimed[0] ? [arrivals[at]!] : []))
        waiting.push(...arrivals.map(({ deliveries }) => deliveries[0]!.id))
        await Promise.all(born.map((arrival) => finish(member, bornClaim(arrival))))
      }
    }
    async function work(member: Store): Promise<void> {
      for (;;) {
        // Hardly later than what is given back is due: a claim that has read much looks back only a few seconds at first.
        const { claims } = await claimDue(member, endpoint, { now: t0 + 1_000, leaseEndsAt: lease, limit: 16 })
        await Promise.all(claims.map((claim) => finish(member, claim)))
        if (claims.length > 0) continue
        if (isOver && (await scene.query('SELECT FROM live LIMIT 1')).length === 0) return
        await pause(2)
      }
    }
    /** Ends one in hand, or gives it back, and goes on with what that brings up. */
    async function finish(member: Store, first: Claim): Promise<void> {
      for (let claim: Claim | null = first; claim !== null; ) {
        ledger.begin(claim)
        if (random() < 0.2) await pause(1)
        const luck = random()
        const claimNext = random() < 0.5 ? lease : null
        const to = luck < 0.1 ? retryAt(claim.delivery, t0) : luck < 0.2 ? failed(claim) : delivered(claim).to
        ledger.end(claim, to.status !== 'pending')
        const [result]: readonly ChangeResult[] = await member.commit([{ to, attempt: null, claimNext }])
        assert.equal(result!.kind, 'applied')
        if (to.status === 'failed') dead.push(to.id)
        claim = result!.kind === 'applied' ? result!.next : null
      }
    }
    async function meddle(member: Store): Promise<void> {
      while (!isOver) {
        const some = waiting.splice(-20).filter(() => random() < 0.3)
        ledger.mayGo(some)
        const cancelled = await member.cancelWaiting(some, t0)
        ledger.gone(
          some,
          cancelled.map(({ deliveryId }) => deliveryId),
        )
        const id = dead.shift()
        const found = id === undefined ? null : (await member.getDelivery(id))!.delivery
        if (found?.status === 'failed') {
          ledger.again(found.id)
          const [result] = await member.commit([change(replayed(found, t0))])
          assert.equal(result!.kind, 'applied')
        }
        await pause(1)
      }
    }

    const names = Array.from({ length: 200 }, (_, at) => `key:${at}`)
    // A lane has one publisher, so that the order in it is known.
    const publishers = members.map((member, at) =>
      publish(
        member,
        names.filter((_, n) => n % 3 === at),
      ),
    )
    const workers = members.flatMap((member) => [work(member), work(member)])
    const meddlers = members.map(meddle)
    const both = Promise.all([...publishers, ...workers, ...meddlers])
    await Promise.race([pause(4_000), both])
    isOver = true
    await both
    await oneHead(scene)
    assert.equal(ledger.inHand, 0)
    t.diagnostic(
      `${ledger.tries} tries of ${ledger.count} deliveries, ${ledger.cancelled} cancelled, ${ledger.replays} replayed`,
    )
    assert.ok(ledger.tries > 500 && ledger.cancelled > 0 && ledger.replays > 0)
  })
})

function failed({ delivery }: Claim): Failed {
  return { ...ended(delivery, 'exhausted', t0 + 10), attempts: 1 }
}

function bornClaim({ event, deliveries: [made] }: Arrival): Claim {
  const { id, endpointId, lane: name } = made!
  const facts = newborn({ id, eventId: event.id, endpointId, lane: name, receivedAt: event.receivedAt })
  return { delivery: { ...facts, status: 'processing', leaseEndsAt: lease }, event, interruptions: 0 }
}

/** What must be true of tries in lanes, whoever makes them. */
class LaneLedger {
  readonly #inHand = new Map<string, string>()
  /** Those that have never ended, in the order in which they were accepted. */
  readonly #order = new Map<string, string[]>()
  readonly #gone = new Set<string>()
  readonly #replayed = new Set<string>()
  #accepted = 0
  #ends = 0
  tries = 0
  cancelled = 0

  get inHand(): number {
    return this.#inHand.size
  }

  get count(): number {
    return this.#accepted
  }

  /** Accepted and not ended, more or less. */
  get open(): number {
    return this.#accepted - this.#ends
  }

  get replays(): number {
    return this.#replayed.size
  }

  accepted(name: string, id: string): void {
    this.#accepted += 1
    const order = this.#order.get(name)
    if (order === undefined) this.#order.set(name, [id])
    else order.push(id)
  }

  begin({ delivery: { id, lane: name } }: Claim): void {
    this.tries += 1
    assert.equal(this.#inHand.get(name!), undefined, `${name} has another in hand`)
    this.#inHand.set(name!, id)
    if (this.#replayed.has(id)) return
    const order = this.#order.get(name!)!
    const before = order.slice(0, order.indexOf(id)).filter((each) => !this.#gone.has(each))
    assert.deepEqual(before, [], `${name} goes in order`)
  }

  /** Before it is written: what comes next may be in somebody's hands before this answers. */
  end({ delivery: { id, lane: name } }: Claim, isOver: boolean): void {
    this.#inHand.delete(name!)
    if (isOver && !this.#replayed.has(id)) this.#ends += 1
    const order = this.#order.get(name!)!
    if (isOver && order.includes(id)) order.splice(order.indexOf(id), 1)
  }

  /** Somebody cancels them, and is told later which. */
  mayGo(ids: readonly string[]): void {
    for (const id of ids) this.#gone.add(id)
  }

  gone(asked: readonly string[], cancelled: readonly string[]): void {
    for (const id of asked) if (!cancelled.includes(id)) this.#gone.delete(id)
    this.cancelled += cancelled.length
    this.#ends += cancelled.length
  }

  again(id: string): void {
    this.#replayed.add(id)
  }
}

describe('a write', limits, () => {
  it('is refused under any isolation that would not see what the last holder of a slot did', async (t) => {
    const { scene, endpoint } = await scenery(t)
    for (const isolation of ['REPEATABLE READ', 'SERIALIZABLE']) {
      const writer = await Writer.open(scene)
      await writer.begin(isolation)
      await assert.rejects(writer.append([inLane(endpoint)]), /isolation level read committed/)
      await writer.client.query('ROLLBACK')
    }
    assert.deepEqual(await scene.query('SELECT FROM events'), [])
  })

  it('is tried again when two wait for each other', async (t) => {
    const { scene, store, endpoint } = await scenery(t)
    const arrivals = [anArrival(endpoint), anArrival(endpoint)]
    await store.append(arrivals)
    const claims = (await claimDue(store, endpoint)).claims
    const [low, high] = claims.toSorted((a, b) => (a.delivery.id < b.delivery.id ? -1 : 1))
    const writer = await Writer.open(scene)
    await writer.client.query(`SET deadlock_timeout = '1h'`)
    await writer.begin()
    await writer.commit([delivered(high!)])
    const both = store.commit([delivered(low!), delivered(high!)])
    await scene.untilBlocked(1)
    await writer.commit([delivered(low!)])
    await writer.end()
    const results = await both
    assert.deepEqual(
      results.map(({ kind }) => kind),
      ['stale', 'stale'],
    )
    assert.equal(store.health().writable, true)
  })

  it('by two members who claim the same deliveries by name never ends in a deadlock', async (t) => {
    const { scene, store, endpoint } = await scenery(t)
    const other = await scene.store()
    const arrivals = Array.from({ length: 200 }, () => anArrival(endpoint))
    await store.append(arrivals)
    const ids = arrivals.map(({ deliveries }) => deliveries[0]!.id)
    for (let round = 1; round <= 20; round++) {
      const [now, leaseEndsAt] = [lease * round + 1, lease * (round + 1)]
      const named = (deliveryIds: string[]) => ({ from: { deliveryIds }, now, leaseEndsAt, limit: 200 })
      const answers = await Promise.all([
        claimDue(store, endpoint, named(ids)),
        claimDue(other, endpoint, named(ids.toReversed())),
      ])
      const taken = answers.flatMap(({ claims }) => claims.map(({ delivery }) => delivery.id))
      assert.equal(new Set(taken).size, taken.length)
      assert.equal(taken.length, 200)
    }
  })
})
