import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isSettled } from '../../src/core/delivery.ts'
import type { RelayEndpoint } from '../../src/core/endpoint.ts'
import type { Report } from '../../src/core/outcome.ts'
import type { Parcel } from '../../src/transports/transport.ts'
import type { HubMemory } from '../support/ahead-wire.ts'
import { anInput, answered, type Bench, openBench, unreachable } from '../support/dispatch-bench.ts'

type Step = Readonly<{
  kind: 'send' | 'answer' | 'link' | 'cancel' | 'pause' | 'acks' | 'crash'
  which: number
}>

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('send', 'send', 'answer', 'answer', 'answer', 'link', 'cancel', 'pause', 'acks', 'crash'),
  which: fc.nat(9),
})

const reports: readonly Report[] = [
  answered(200),
  answered(200),
  answered(200),
  answered(503),
  answered(400),
  unreachable('ECONNREFUSED'),
]

describe('ahead of its turn', () => {
  test('whatever happens, the target gets all in order, nothing again that has ended, and nothing sticks', async (t) => {
    let compared = 0
    let ahead = 0
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
        const walk = new Walk()
        await walk.run(t, steps)
        compared += walk.compared
        ahead += walk.ahead
      }),
      { numRuns: 12 },
    )
    assert.ok(compared > 100, `only ${compared} deliveries had one before them`)
    assert.ok(ahead > 0, 'nothing was ever sent ahead')
  })
})

class Walk {
  /** How often one was seen to have ended before another was tried. */
  compared = 0
  /** How many were at the hub before their turn, step by step. */
  ahead = 0
  readonly #memory: HubMemory = new Map()
  readonly #checks: Promise<void>[] = []
  readonly #ended = new Set<string>()
  #bench!: Bench
  #endpoint!: RelayEndpoint
  #releaseAcks: (() => void) | null = null
  #isOver = false

  async run(t: Parameters<typeof openBench>[0], steps: readonly Step[]): Promise<void> {
    await this.#open(t)
    this.#endpoint = await this.#bench.addRelay()
    for (const one of steps) {
      await this.#take(t, one)
      await this.#bench.quiet()
      this.ahead += this.#bench.hub.aheadOf(this.#endpoint)
    }
    await this.#goOn()
    const bench = this.#bench
    const left = (await bench.deliveries()).filter(({ delivery }) => !isSettled(delivery.status))
    assert.deepEqual(left, [], 'something is stuck')
    assert.deepEqual(bench.dispatcher.load(), { inFlight: 0, queued: 0, bytes: 0 })
    await Promise.all(this.#checks)
    await bench.stop()
  }

  async #open(t: Parameters<typeof openBench>[0], folder?: string): Promise<void> {
    this.#bench = await openBench(t, {
      hubMemory: this.#memory,
      target: (parcel) => this.#target(parcel),
      ...(folder === undefined ? {} : { folder }),
    })
    this.#bench.hub.room = { count: 7, bytes: 1_000_000 }
  }

  /** The target takes what it gets when the walk is over; before that it waits for its step. */
  #target(parcel: Parcel): Report | 'hold' {
    assert.ok(!this.#ended.has(parcel.deliveryId), `${parcel.deliveryId} has ended before`)
    this.#checks.push(this.#checkOrder(parcel, this.#bench, new Set(this.#ended)))
    if (!this.#isOver) return 'hold'
    this.#ended.add(parcel.deliveryId)
    return answered(200)
  }

  /** Whatever was accepted before has ended: here, or by what the disk says. */
  async #checkOrder(parcel: Parcel, bench: Bench, ended: ReadonlySet<string>): Promise<void> {
    // Of a process that crashes meanwhile nobody can ask the disk.
    const records = await bench
      .deliveries()
      .catch((error) => (error.code === 'shutting_down' ? [] : assert.fail(error)))
    for (const { delivery } of records) {
      if (delivery.id >= parcel.deliveryId) continue
      this.compared += 1
      if (ended.has(delivery.id)) continue
      assert.ok(isSettled(delivery.status), `${delivery.id} is ${delivery.status} before ${parcel.deliveryId}`)
    }
  }

  async #take(t: Parameters<typeof openBench>[0], { kind, which }: Step): Promise<void> {
    const bench = this.#bench
    switch (kind) {
      case 'send':
        await bench.intake.accept(Array.from({ length: 1 + which }, (_, n) => anInput({ n })))
        return
      case 'answer':
        for (const run of [...bench.hub.open].slice(0, 1)) {
          const report = reports[which % reports.length] ?? answered(200)
          if (report.kind === 'answered' && report.statusCode < 500) this.#ended.add(run.parcel.deliveryId)
          run.answer(report)
        }
        await bench.pass(300)
        return
      case 'link':
        if (bench.hub.absent.has(this.#endpoint.id)) bench.hub.come(this.#endpoint)
        else bench.hub.lose(this.#endpoint)
        return
      case 'cancel': {
        const waiting = (await bench.deliveries()).filter(({ delivery }) => delivery.status === 'pending')
        const chosen = waiting[which % Math.max(1, waiting.length)]
        if (chosen !== undefined) await bench.dispatcher.cancel(chosen.delivery.id)
        return
      }
      case 'pause':
        bench.dispatcher.paused = !bench.dispatcher.paused
        return
      case 'acks':
        this.#letAcks()
        if (which % 2 === 0) this.#releaseAcks = bench.hub.holdAcks()
        return
      case 'crash':
        this.#releaseAcks = null
        await bench.abandon()
        // The hub has lost what it had begun, and remembers what it has ended.
        await this.#open(t, bench.folder)
        return
    }
  }

  #letAcks(): void {
    this.#releaseAcks?.()
    this.#releaseAcks = null
  }

  async #goOn(): Promise<void> {
    const { hub, dispatcher } = this.#bench
    this.#isOver = true
    this.#letAcks()
    dispatcher.paused = false
    hub.come(this.#endpoint)
    for (const run of [...hub.open]) {
      this.#ended.add(run.parcel.deliveryId)
      run.answer(answered(200))
    }
    await this.#bench.pass(60_000, 1_000)
  }
}
