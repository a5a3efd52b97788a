import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { Ends } from '../../src/hub/ends.ts'
import type { HubMemory, KeptEnd } from '../../src/store/hub-memory.ts'
import { anEnd } from '../contracts/hub-memory.ts'
import { isRoot, Scene } from '../store/scene.ts'
import { HubScene, routeTo, testLog } from './hub-scene.ts'

test('remembers what has ended after a restart, and tries what had not', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target([{ status: 200, body: 'done' }, { status: 400 }, { status: 503 }, {}])
  const settings = { edge: edge.url, routes: routeTo(target), memoryFile: await scene.newFile() }
  const first = await scene.hub(settings)
  const before = await edge.link()
  before.describe()
  for (const delivery of ['a', 'b', 'c']) {
    before.deliver({ delivery })
    await before.ack()
  }
  await first.stop()
  await scene.hub(settings)
  const after = await edge.link()
  assert.notEqual(after.hello.session, before.hello.session)
  after.describe()
  const found: unknown[] = []
  for (const delivery of ['a', 'b', 'c']) {
    after.deliver({ delivery, attempt: 2 })
    const { report, remembered = false } = await after.ack()
    found.push([report.kind === 'answered' && report.statusCode, remembered])
  }
  assert.deepEqual(found, [
    [200, true],
    [400, true],
    [200, false],
  ])
  assert.equal(target.received.length, 4)
})

function startProcess(t: TestContext, edge: string, target: string, memoryFile: string): ChildProcess {
  const script = join(import.meta.dirname, 'hub-process.ts')
  const child = spawn(process.execPath, [script, edge, target, memoryFile], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  return child
}

test('killed with -9 while a try is under way: the next remembers what had ended and tries the other again', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target([{}, {}, 'hang', {}])
  const memoryFile = await scene.newFile()
  const child = startProcess(t, edge.url, target.url, memoryFile)
  const before = await edge.link()
  before.describe()
  const chain = ['a', 'b', 'c']
  const send = (link: typeof before) =>
    chain.forEach((delivery, n) => {
      link.deliver({ delivery, lane: '', behind: chain[n - 1] ?? null })
    })
  send(before)
  for (const _ of ['a', 'b']) await before.ack()
  for (const _ of chain) await target.next()
  child.kill('SIGKILL')
  await once(child, 'exit')

  const next = startProcess(t, edge.url, target.url, memoryFile)
  const after = await edge.link()
  after.describe()
  send(after)
  const answers = [await after.ack(), await after.ack(), await after.ack()]
  assert.deepEqual(
    answers.map(({ delivery, remembered = false }) => [delivery, remembered]),
    [
      ['a', true],
      ['b', true],
      ['c', false],
    ],
  )
  const got = target.received.map(({ headers }) => headers['posthorn-delivery'])
  assert.deepEqual(got, ['a', 'b', 'c', 'c'])
  next.kill('SIGTERM')
  assert.deepEqual(await once(next, 'exit'), [0, null])
})

test('a second hub on the same memory is refused in a sentence', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const memoryFile = await scene.newFile()
  await scene.hub({ edge: edge.url, memoryFile })
  await assert.rejects(scene.openHub({ edge: edge.url, memoryFile }), { message: /Each hub has a memory of its own/ })
})

/** A memory on a disk that can be full. */
class ScriptedMemory implements HubMemory {
  readonly kept: KeptEnd[] = []
  isFull = false
  isClosed = false
  find = (delivery: string): KeptEnd | null =>
    this.#write(() => this.kept.find((end) => end.delivery === delivery) ?? null)
  keep = (end: KeptEnd): void => this.#write(() => void this.kept.push(end))
  probe = (): void => this.#write(() => undefined)
  close = (): void => {
    this.isClosed = true
  }

  #write<T>(work: () => T): T {
    if (this.isFull) throw new Error('The disk is full')
    return work()
  }
}

test('an end that cannot be written is held until it can, and until then nothing may begin', async () => {
  const memory = new ScriptedMemory()
  const ends = new Ends(memory, testLog, 1)
  memory.isFull = true
  let isKept = false
  const kept = ends.keep(anEnd()).then(() => {
    isKept = true
  })
  assert.match(ends.problem ?? '', /The disk is full/)
  assert.equal(isKept, false)
  memory.isFull = false
  await kept
  assert.deepEqual([memory.kept, ends.problem], [[anEnd()], null])
  ends.close()
  assert.ok(memory.isClosed)
})

test('a memory that cannot be read is a reason to begin nothing either', () => {
  const memory = new ScriptedMemory()
  const ends = new Ends(memory, testLog, 60_000)
  memory.isFull = true
  assert.equal(ends.find('dlv_1', 1), null)
  assert.notEqual(ends.problem, null)
  ends.close()
})

test('what could not be written is tried once more at the end', () => {
  const memory = new ScriptedMemory()
  const ends = new Ends(memory, testLog, 60_000)
  memory.isFull = true
  ends.keep(anEnd())
  memory.isFull = false
  ends.close()
  assert.deepEqual(memory.kept, [anEnd()])
})

test('a full disk: acknowledges nothing that it would forget, tries nothing new, goes on when there is room', {
  skip: !isRoot && 'needs root to have a disk that is full',
}, async (t) => {
  const scene = new HubScene(t)
  const memoryFile = join(await new Scene(t).tmpfs(512), 'hub.db')
  const edge = await scene.edge()
  const target = await scene.target()
  const hub = await scene.hub({ edge: edge.url, routes: routeTo(target), memoryFile, timing: { rewriteEveryMs: 5 } })
  const link = await edge.link()
  link.describe()
  const ballast = join(dirname(memoryFile), 'ballast')
  assert.throws(() => writeFileSync(ballast, Buffer.alloc(1 << 20)), { code: 'ENOSPC' })
  link.deliver({ delivery: 'a', lane: '' })
  await target.next()
  link.deliver({ delivery: 'b', lane: '', behind: 'a' })
  // Others show that the hub has noticed: until then it may try.
  const told = link.ack()
  for (let n = 0, isTold = false; !isTold; n++) {
    link.deliver({ delivery: `x${n}` })
    isTold = await Promise.race([told.then(() => true), target.next().then(() => false)])
  }
  const { report } = await told
  assert.equal(report.kind === 'unreachable' && report.code, 'HUB_MEMORY')
  const triedByThen = target.received.length
  truncateSync(ballast, 0)
  const acked: string[] = []
  while (!acked.includes('b')) acked.push((await link.ack()).delivery)
  assert.equal(acked[0], 'a')
  assert.equal(target.received.length, triedByThen + 1)
  await hub.stop()
})
