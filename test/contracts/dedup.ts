import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Logger } from '../../src/log.ts'
import { Dedup, type DedupParts, type Reservation, type Reserved } from '../../src/shared-state/dedup.ts'
import type { SharedState } from '../../src/shared-state/shared-state.ts'
import { t0 } from '../support/builders.ts'
import { eventually } from '../support/eventually.ts'
import { FickleState } from '../support/fickle-state.ts'

/** Opens what one process has of a state that all of them share. Closed when the test ends. */
export type OpenDedupState = (
  t: TestContext,
) => Promise<Readonly<{ open: () => Promise<SharedState>; flush: () => Promise<unknown> }>>

const hourMs = 3_600_000

/** One process after the other, each with a state that can fail. */
async function openScene(t: TestContext, openState: OpenDedupState) {
  const shared = await openState(t)
  const steady = () => performance.now()
  const member = async (given: Partial<DedupParts> = {}) => {
    const state = new FickleState(steady, await shared.open())
    const time = { now: t0 }
    const logged: string[] = []
    const log = {
      warn: (_: object, words: string) => logged.push(words),
      info: (_: object, words: string) => logged.push(words),
    } as unknown as Logger
    const now = () => time.now
    const clock = { wall: now, steady: now, monotonic: now }
    const dedup = new Dedup({ state, clock, log, scope: 'billing', leaseMs: hourMs, ...given })
    return { state, time, logged, dedup }
  }
  return { member, flush: shared.flush }
}

const kindsOf = (all: readonly Reserved[]) => all.map(({ kind }) => kind)

async function kinds(dedup: Dedup, ...ids: readonly string[]): Promise<readonly string[]> {
  return kindsOf(await dedup.reserve(ids))
}

/** The reservations of these ids, all of which have to be there to be had. */
async function taken(dedup: Dedup, ...ids: readonly string[]): Promise<readonly Reservation[]> {
  const all = await dedup.reserve(ids)
  return all.map((reserved) => {
    assert.ok(reserved.kind === 'mine', reserved.kind)
    return reserved.reservation
  })
}

/** When it may be had again. */
function untilMine(dedup: Dedup, id: string): Promise<readonly Reservation[]> {
  return eventually(`${id} is free`, async () => {
    const [reserved] = await dedup.reserve([id])
    return reserved?.kind === 'mine' ? [reserved.reservation] : null
  })
}

/** Deduplication over a state: the same on every adapter. */
export function dedupContract(name: string, openState: OpenDedupState): void {
  describe(`${name}: deduplication`, () => {
    ofCopies(openState)
    ofLeases(openState)
    ofFailures(openState)
  })
}

function ofCopies(openState: OpenDedupState): void {
  test('gives a message to one of many that want it at the same moment, and to nobody once it is processed', async (t) => {
    const { member } = await openScene(t, openState)
    const all = await Promise.all([member(), member(), member()])
    const answers = await Promise.all(all.flatMap(({ dedup }) => [dedup.reserve(['m1']), dedup.reserve(['m1'])]))
    assert.deepEqual(kindsOf(answers.flat()).toSorted(), [...Array(5).fill('elsewhere'), 'mine'])
    const mine = answers.flat().flatMap((each) => (each.kind === 'mine' ? [each.reservation] : []))
    await all[1]!.dedup.confirm(mine)
    for (const { dedup } of all) assert.deepEqual(await kinds(dedup, 'm1'), ['done'])
  })

  test('answers many in their order, and of one id that comes twice in a call only the first is mine', async (t) => {
    const { member } = await openScene(t, openState)
    const [here, there] = [await member(), await member()]
    await there.dedup.confirm(await taken(there.dedup, 'done 1', 'done 2'))
    await taken(there.dedup, 'busy')
    assert.deepEqual(await kinds(here.dedup, 'a', 'done 2', 'busy', 'a', 'b', 'done 2', 'a'), [
      ...['mine', 'done', 'elsewhere', 'elsewhere', 'mine', 'done', 'elsewhere'],
    ])
    assert.deepEqual(await kinds(here.dedup), [])
    await here.dedup.confirm([])
    await here.dedup.release([])
    assert.equal(here.state.swaps, 1)
  })

  test('a released message may be processed again, by anybody', async (t) => {
    const { member } = await openScene(t, openState)
    const [here, there] = [await member(), await member()]
    const reservations = await taken(here.dedup, 'a', 'b')
    await here.dedup.release(reservations.slice(0, 1))
    assert.deepEqual(await kinds(there.dedup, 'a', 'b'), ['mine', 'elsewhere'])
  })

  test('ids are apart, however they look, and so are consumers', async (t) => {
    const { member } = await openScene(t, openState)
    const here = await member()
    const ids = ['', ' ', 'a', 'A', 'a:b', '["a"]', '\u0000', '\ud800', '\ud801', 'ä', 'a\u0308', 'x'.repeat(1_000_000)]
    ids.push(`${'x'.repeat(1_000_000)}y`, "'; DROP TABLE shared_state; --", '{key}', 'orders-3-1029')
    await here.dedup.confirm(await taken(here.dedup, ...ids))
    assert.deepEqual(await kinds(here.dedup, ...ids), Array(ids.length).fill('done'))
    for (const scope of ['shipping', 'billing","', 'billing:a']) {
      assert.deepEqual(await kinds((await member({ scope })).dedup, ':a', 'a', ''), ['mine', 'mine', 'mine'])
    }
  })
}

function ofLeases(openState: OpenDedupState): void {
  test('what was reserved by a process that died is free after its lease', async (t) => {
    const { member } = await openScene(t, openState)
    const [dead, here] = [await member({ leaseMs: 200 }), await member()]
    await taken(dead.dedup, 'm1')
    assert.equal((await untilMine(here.dedup, 'm1')).length, 1)
  })

  test('a processed message is forgotten after its window', async (t) => {
    const { member } = await openScene(t, openState)
    const [here, there] = [await member({ windowMs: 300 }), await member()]
    await here.dedup.confirm(await taken(here.dedup, 'm1'))
    await untilMine(there.dedup, 'm1')
  })

  test('a success counts also when it comes after the lease, and what the next one does then changes nothing', async (t) => {
    const { member } = await openScene(t, openState)
    const [slow, next] = [await member({ leaseMs: 200 }), await member()]
    const late = await taken(slow.dedup, 'm1', 'm2', 'm3')
    const again = [...(await untilMine(next.dedup, 'm1')), ...(await untilMine(next.dedup, 'm2'))]
    await slow.dedup.confirm(late)
    assert.deepEqual(await kinds(next.dedup, 'm1', 'm2', 'm3'), ['done', 'done', 'done'])
    await next.dedup.release(again.slice(0, 1))
    await next.dedup.confirm(again.slice(1))
    await slow.dedup.confirm(late)
    assert.deepEqual(await kinds(slow.dedup, 'm1', 'm2', 'm3'), ['done', 'done', 'done'])
  })

  test('a failure that comes after the lease does not free what another has reserved, in this process or not', async (t) => {
    const { member } = await openScene(t, openState)
    const [slow, next] = [await member({ leaseMs: 300 }), await member()]
    const [late] = await taken(slow.dedup, 'm1')
    const again = await untilMine(next.dedup, 'm1')
    await slow.dedup.release([late!])
    assert.deepEqual(await kinds(slow.dedup, 'm1'), ['elsewhere'])
    await next.dedup.release(again)
    const [own] = await untilMine(next.dedup, 'm1')
    await next.dedup.release(again)
    assert.deepEqual(await kinds(slow.dedup, 'm1'), ['elsewhere'])
    // The ended and the living one in one call.
    await next.dedup.release([own!, again[0]!])
    assert.deepEqual(await kinds(slow.dedup, 'm1'), ['mine'])
  })
}

function ofFailures(openState: OpenDedupState): void {
  test('while the state is away every message is mine, which is said once, and then copies are recognised again', async (t) => {
    const { member } = await openScene(t, openState)
    const { dedup, state, time, logged } = await member()
    const problem = () => dedup.problem
    await dedup.confirm(await taken(dedup, 'm1'))
    assert.equal(problem(), null)
    state.isAway = true
    const reservations = await taken(dedup, 'm1', 'm2')
    assert.match(problem()?.text ?? '', /^The state does not answer: /)
    assert.equal(problem()?.since, t0)
    await dedup.confirm(reservations)
    await dedup.release(reservations)
    time.now += 60_000
    assert.deepEqual(await kinds(dedup, 'm1'), ['mine'])
    assert.equal(problem()?.since, t0)
    assert.deepEqual(logged, ['dedup.away'])
    state.isAway = false
    time.now += 60_000
    assert.deepEqual(await kinds(dedup, 'm1', 'm2'), ['done', 'mine'])
    assert.equal(problem(), null)
    assert.deepEqual(logged, ['dedup.away', 'dedup.back'])
  })

  test('nobody waits for a state that is away, but for one that looks again from time to time', async (t) => {
    const { member } = await openScene(t, openState)
    const { dedup, state, time } = await member()
    state.isAway = true
    for (let n = 0; n < 10; n++) await taken(dedup, `m${n}`)
    assert.equal(state.swaps, 1)
    time.now += 1_000
    const release = state.hold()
    const looking = taken(dedup, 'looks again')
    for (let n = 0; n < 10; n++) await taken(dedup, `m${n}`)
    assert.equal(state.swaps, 2)
    time.now += 100
    release()
    await looking
    time.now += 999
    await taken(dedup, 'm1')
    assert.equal(state.swaps, 2)
  })

  test('a reservation whose answer was lost is mine, and its success is known to all', async (t) => {
    const { member } = await openScene(t, openState)
    const [here, there] = [await member(), await member()]
    here.state.losesAnswers = true
    const reservations = await taken(here.dedup, 'm1', 'm2')
    here.state.losesAnswers = false
    here.time.now += 60_000
    assert.deepEqual(await kinds(there.dedup, 'm1', 'm2'), ['elsewhere', 'elsewhere'])
    await here.dedup.confirm(reservations.slice(0, 1))
    await here.dedup.release(reservations.slice(1))
    assert.deepEqual(await kinds(there.dedup, 'm1', 'm2'), ['done', 'mine'])
  })

  test('a state that has lost everything while a message was processed still learns of its success', async (t) => {
    const { member, flush } = await openScene(t, openState)
    const [here, there] = [await member(), await member()]
    const reservations = await taken(here.dedup, 'm1', 'm2', 'm3')
    await flush()
    await taken(there.dedup, 'm3')
    await here.dedup.confirm(reservations.filter((_, at) => at !== 1))
    await here.dedup.release(reservations.slice(1, 2))
    assert.deepEqual(await kinds(there.dedup, 'm1', 'm2', 'm3'), ['done', 'mine', 'done'])
  })

  test('who waits for a slow answer finds what others have done meanwhile', async (t) => {
    const { member } = await openScene(t, openState)
    const [slow, quick] = [await member(), await member()]
    const release = slow.state.hold()
    const waiting = slow.dedup.reserve(['m1', 'm2'])
    const [first] = await taken(quick.dedup, 'm1', 'm2')
    await quick.dedup.confirm([first!])
    release()
    assert.deepEqual(kindsOf(await waiting), ['done', 'elsewhere'])
  })
}
