import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import type { Ack } from '../../src/transports/relay/protocol.ts'
import { randomFrom } from '../support/random.ts'
import type { EdgeLink, ScriptedEdge } from '../support/scripted-edge.ts'
import type { Answer, Received, ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { HubScene, routeTo, type WatchedHub } from './hub-scene.ts'

const count = 60
const aheadMax = 12
const name = (n: number): string => `d${n}`
const numberIn = (id: unknown): number => Number(String(id).slice(1))
const isEnd = (status: number): boolean => status < 500

/** What happened at the target, in order: a request came, an answer that is an end was given. */
type Seen = Readonly<{ what: 'begun' | 'ended'; n: number }>

/** A target of moods: delivered, refused for good, broken, silent for a while, gone. */
function moody(random: () => number, seen: Seen[]): (received: Received) => Promise<Answer> {
  return async (received) => {
    const n = numberIn(received.headers['posthorn-delivery'])
    seen.push({ what: 'begun', n })
    if (random() < 0.3) await wait(random() * 8)
    const mood = random()
    if (mood < 0.12) return 'drop'
    const status = mood < 0.3 ? 503 : mood < 0.45 ? 404 : 200
    if (isEnd(status)) seen.push({ what: 'ended', n })
    return { status }
  }
}

/**
 * The edge's part, as far as order goes: the first that has not ended is sent behind none, what follows is sent ahead,
 * and what breaks the chain voids it. On top of that it cuts links, sends twice and recalls, as chance will have it.
 */
class ScriptedChain {
  /** The first that has not ended, as far as the edge knows. */
  head = 0
  readonly #random: () => number
  #sent = 0
  readonly #out = new Set<number>()
  readonly #ended = new Set<number>()

  constructor(random: () => number) {
    this.#random = random
  }

  /** Until all have ended, or the link has. */
  async pushOn(link: EdgeLink): Promise<void> {
    this.#out.clear()
    this.#ended.clear()
    while (this.head < count) {
      this.#send(link)
      const chance = this.#random()
      if (chance < 0.06) link.ws.terminate()
      else if (chance < 0.12) link.send({ kind: 'recall', endpoint: 'ep_1' })
      const message = await link.any()
      if (message.kind === 'ack') this.#acked(message)
      else if (message.kind === 'returned') for (const id of message.deliveries) this.#void(numberIn(id))
    }
  }

  #send(link: EdgeLink): void {
    if (!this.#out.has(this.head)) {
      this.#deliver(link, this.head, null)
      this.#sent = this.head + 1
    }
    const end = Math.min(count, this.head + 1 + Math.floor(this.#random() * aheadMax))
    for (; this.#sent < end; this.#sent++) this.#deliver(link, this.#sent, name(this.#sent - 1))
  }

  #deliver(link: EdgeLink, n: number, behind: string | null): void {
    this.#out.add(n)
    const times = this.#random() < 0.1 ? 2 : 1
    for (let i = 0; i < times; i++) link.deliver({ delivery: name(n), lane: '', behind, event: { id: name(n) } })
  }

  #acked({ delivery, report }: Ack): void {
    const n = numberIn(delivery)
    this.#out.delete(n)
    if (report.kind === 'answered' && isEnd(report.statusCode)) this.#ended.add(n)
    else this.#void(n)
    while (this.#ended.has(this.head)) this.head++
  }

  #void(n: number): void {
    this.#out.delete(n)
    this.#sent = Math.min(this.#sent, n)
  }
}

/** Brings all deliveries to their end, over as many links as it takes. */
async function push(edge: ScriptedEdge, random: () => number, disturb: () => Promise<void>): Promise<number> {
  const chain = new ScriptedChain(random)
  let links = 0
  for (; chain.head < count; links++) {
    const link = await edge.link()
    link.describe()
    await chain.pushOn(link).catch(() => undefined)
    if (chain.head < count) await disturb()
  }
  return links
}

function check(seen: readonly Seen[], target: ScriptedEndpoint): void {
  const ended = new Set<number>()
  for (const { what, n } of seen) {
    if (what === 'ended') {
      ended.add(n)
      continue
    }
    assert.ok(n === 0 || ended.has(n - 1), `${n} began before ${n - 1} had ended`)
    assert.ok(!ended.has(n), `${n} was tried after it had ended`)
  }
  assert.equal(ended.size, count)
  for (const { headers } of target.received) assert.equal(headers['webhook-id'], headers['posthorn-delivery'])
}

for (const seed of [1, 2, 3, 4, 5, 6]) {
  test(`through cuts, repeats, recalls and every answer (seed ${seed}): in order, and no end is tried again`, async (t) => {
    const random = randomFrom(seed)
    const scene = new HubScene(t)
    const edge = await scene.edge()
    const seen: Seen[] = []
    const target = await scene.target(moody(randomFrom(seed + 1_000), seen))
    await scene.hub({ edge: edge.url, routes: routeTo(target), timing: { goodLinkMs: 0, backoffMsMin: 1 } })
    assert.ok((await push(edge, random, async () => undefined)) > 1)
    check(seen, target)
  })
}

for (const seed of [11, 12]) {
  test(`through restarts of the hub as well (seed ${seed})`, async (t) => {
    const scene = new HubScene(t)
    const edge = await scene.edge()
    const seen: Seen[] = []
    const target = await scene.target(moody(randomFrom(seed + 1_000), seen))
    const settings = { edge: edge.url, routes: routeTo(target), memoryFile: await scene.newFile() }
    let hub: WatchedHub = await scene.hub({ ...settings, timing: { graceMs: 10_000 } })
    await push(edge, randomFrom(seed), async () => {
      // A link that it has opened by now is one that it closes again.
      await hub.stop()
      hub = await scene.hub({ ...settings, timing: { graceMs: 10_000 } })
    })
    check(seen, target)
  })
}
