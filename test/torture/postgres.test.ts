import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '../support/eventually.ts'
import { FaultScene, type FaultyMember } from '../support/fault-scene.ts'
import { noOwnPostgres } from '../support/postgres.ts'
import { randomFrom } from '../support/random.ts'

const rounds = 40
const outageMs = 30_000
const seed = Number(process.env.CRASH_SEED ?? Date.now() % 2 ** 31)

type Run = Readonly<{ scene: FaultScene; random: () => number }>

/** Answers at how many moments work can have been cut off with what was in flight. */
type Fault = (run: Run) => Promise<number>

function anyOf({ scene, random }: Run): FaultyMember {
  return scene.members[Math.floor(random() * scene.members.length)]!
}

async function allAreReady({ members }: FaultScene): Promise<void> {
  for (const { url } of members) {
    await eventually('it is ready', async () => ((await fetch(`${url}/readyz`)).status === 200 ? true : null))
  }
}

const faults: Readonly<Record<string, Fault>> = {
  async 'kill -9 of a member'(run) {
    const member = anyOf(run)
    await member.server.kill()
    await pause(run.random() * 3_000)
    await run.scene.start(member)
    return 1
  },
  async 'SIGSTOP beyond the lease'(run) {
    await run.scene.stopBeyondLease(anyOf(run))
    return 1
  },
  async 'SIGSTOP for a moment'(run) {
    const { child } = anyOf(run).server
    child.kill('SIGSTOP')
    await pause(run.random() * 4_000)
    child.kill('SIGCONT')
    return 0
  },
  async 'connections ended'({ scene, random }) {
    for (let count = 0; count < 10; count++) {
      await scene.terminate(random())
      await pause(random() * 200)
    }
    return 0
  },
  async 'Postgres killed'({ scene, random }) {
    await scene.postgres.kill()
    await pause(random() * 2_000)
    await scene.postgres.start()
    return 0
  },
  async 'Postgres restarted'({ scene }) {
    await scene.postgres.restart()
    return 0
  },
  async 'rolling restart'({ scene }) {
    for (const member of scene.members) {
      assert.equal(await member.server.stop(), 0)
      await scene.start(member)
    }
    return 0
  },
  async 'read-only beyond the lease'({ scene }) {
    await scene.query('ALTER SYSTEM SET default_transaction_read_only = on')
    await scene.query('SELECT pg_reload_conf()')
    await pause(12_000)
    await scene.query('ALTER SYSTEM RESET default_transaction_read_only')
    await scene.query('SELECT pg_reload_conf()')
    return 1
  },
  async 'half a minute without Postgres'({ scene }) {
    await scene.postgres.kill()
    await pause(outageMs)
    await scene.postgres.start()
    return 1
  },
}

async function torment(t: TestContext, name: string, count: number, which: readonly string[]): Promise<void> {
  t.diagnostic(`CRASH_SEED=${seed}`)
  const random = randomFrom(seed)
  const scene = await FaultScene.open(t)
  let cuts = 0
  for (let round = 0; round < count; round++) {
    const fault = which[Math.floor(random() * which.length)]!
    await scene.arrived(1 + Math.floor(random() * 150))
    t.diagnostic(`${name} ${round}: ${fault}`)
    cuts += await faults[fault]!({ scene, random })
    await allAreReady(scene)
  }
  await scene.arrived(150)
  await scene.check(t, { cuts })
}

const skip = noOwnPostgres() ?? false

test(`${rounds} faults of every kind, one after the other: nothing lost, order kept, repeats bounded`, { skip }, (t) =>
  torment(t, 'round', rounds, Object.keys(faults)),
)

test('faults that cut nothing off: nothing comes twice', { skip }, (t) =>
  torment(t, 'round', rounds, [
    'SIGSTOP for a moment',
    'connections ended',
    'Postgres killed',
    'Postgres restarted',
    'rolling restart',
  ]),
)

test('half a minute without Postgres: nobody is fenced, and nothing is interrupted', { skip }, async (t) => {
  const scene = await FaultScene.open(t)
  await scene.arrived(100)
  await faults['half a minute without Postgres']!({ scene, random: Math.random })
  await allAreReady(scene)
  await scene.arrived(100)
  await scene.check(t, { cuts: 1 })
  assert.deepEqual(await scene.query('SELECT no FROM members WHERE fenced'), [])
})
