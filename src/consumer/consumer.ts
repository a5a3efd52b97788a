import type { Clock } from '../core/clock.ts'
import type { ConsumerSettings } from '../core/consumer.ts'
import type { Outcome, Reason } from '../core/outcome.ts'
import { stepAfter } from '../core/record-step.ts'
import { delayAfter } from '../core/retry-policy.ts'
import type { KafkaConsumer, KafkaRecord, Partition, PartitionOwner } from '../kafka/driver.ts'
import type { Logger } from '../log.ts'
import { rest } from '../store/pace.ts'
import { Commits } from './commits.ts'
import { Copies, type CopyRules } from './copies.ts'
import { DeadLetterWriter } from './dead-letter-writer.ts'
import type { DeadLetters } from './dead-letters.ts'
import type { Dependencies } from './dependencies.ts'
import { ParkedRecords } from './parked-records.ts'
import type { PartitionWork } from './partition-work.ts'
import { Partitions } from './partitions.ts'
import { Queue } from './queue.ts'
import type { RecordFailure, RecordWork } from './record-work.ts'
import { Room } from './room.ts'
import { type ConsumerSnapshot, partitionSnapshot, type Tally, tallyOfNothing } from './snapshot.ts'
import { StartGate } from './start-gate.ts'

/** One attempt at a record, and what it meant. Never rejects. */
export type Attempted = Readonly<{ outcome: Outcome; failure: RecordFailure | null }>
export type RunRecord = (work: RecordWork, signal: AbortSignal) => Promise<Attempted>

export type ConsumerParts = Readonly<{
  settings: ConsumerSettings
  /** Joins the group. */
  join: (owner: PartitionOwner) => Promise<KafkaConsumer>
  run: RunRecord
  /** null: what cannot be processed is logged, counted and passed. */
  deadLetters: DeadLetters | null
  dependencies: Dependencies
  /** null: copies are not recognised. */
  copies: CopyRules | null
  clock: Clock
  log: Logger
  random: () => number
}>

const pollFailedPauseMs = 1_000
/** A copy of the record is being processed: soon it is known whether that has succeeded. */
const copyPauseMs = 500
const parkedCheckMs = 1_000

/**
 * A member of a consumer group: receive → attempt → decide → end → commit, for records in lanes.
 *
 * An offset is committed only when everything below it is done: processed, or a dead letter that has been acknowledged
 * (where the settings say so: logged and passed). A record that fails keeps its lane until then and gives its slot back.
 */
export class Consumer implements PartitionOwner {
  readonly #parts: ConsumerParts
  readonly #partitions: Partitions
  readonly #ready = new Queue<RecordWork>()
  readonly #parked: ParkedRecords
  readonly #room: Room
  readonly #commits: Commits
  readonly #copies: Copies
  readonly #gate: StartGate
  /** null: what cannot be processed is logged, counted and passed. */
  readonly #writer: DeadLetterWriter | null
  readonly #tally: Tally = tallyOfNothing()
  readonly #stopping = new AbortController()
  #kafka: KafkaConsumer | null = null
  #polling: Promise<void> | null = null
  #ticking: NodeJS.Timeout[] = []
  #running = 0
  #problem: string | null = null
  #stopped: Promise<void> | null = null

  constructor(parts: ConsumerParts) {
    this.#parts = parts
    const { settings, log, dependencies, deadLetters } = parts
    this.#parked = new ParkedRecords(dependencies, {
      unparked: (work) => this.#queue(work),
      probe: (work, dependency) => this.#process(work, dependency),
    })
    this.#partitions = new Partitions(settings.ordering)
    this.#room = new Room(settings)
    this.#commits = new Commits(log)
    this.#copies = new Copies(parts.copies)
    this.#writer = deadLetters === null ? null : new DeadLetterWriter({ ...parts, deadLetters })
    this.#gate = new StartGate({ ...parts, onOpen: () => this.#goOn() })
  }

  get name(): string {
    return this.#parts.settings.name
  }

  /** Rejects when no broker can be reached or it does not let us in. */
  async start(): Promise<void> {
    const { join, settings, log } = this.#parts
    this.#kafka = await join(this)
    this.#polling = this.#poll(this.#kafka)
    this.#ticking = [
      setInterval(() => void this.#commit(), settings.commitEveryMs),
      setInterval(() => void this.#parked.check(), parkedCheckMs),
    ]
    log.info({ consumer: settings.name, topics: settings.topics, group: settings.group }, 'consumer.started')
  }

  /** Lets what is under way end within `drainMs`, commits what is done, and leaves the group. May be called twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    this.#stopping.abort()
    for (const timer of this.#ticking) clearInterval(timer)
    this.#gate.stop()
    await this.#kafka?.close().catch((err) => this.#parts.log.warn({ err }, 'consumer.not_closed'))
    await this.#polling
  }

  // ── 1. Receive ──────────────────────────────────────────────────────────────────────────────────────────────────

  async #poll(kafka: KafkaConsumer): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        const records = await kafka.poll()
        this.#problem = null
        for (const record of records) this.#receive(record)
        this.#goOn()
      } catch (err) {
        if (signal.aborted) return
        this.#noteProblem(err)
        await rest(pollFailedPauseMs, signal)
      }
    }
  }

  /** Logged once, until it is over. */
  #noteProblem(err: unknown): null {
    if (this.#problem === null) this.#parts.log.error({ err, consumer: this.name }, 'consumer.not_polled')
    this.#problem = err instanceof Error ? err.message : String(err)
    return null
  }

  #receive(record: KafkaRecord): void {
    const partition = this.#partitions.get(record)
    if (partition === undefined || !partition.isOpen) return
    const work = partition.receive(record)
    if (work === 'rewound') {
      this.#drop(partition)
      this.#partitions.add([record], [])
      return this.#receive(record)
    }
    if (work === null) return
    this.#room.add(work)
    if (partition.isHead(work)) this.#ready.push(work)
  }

  /** Starts what may start, and brings in as many records as there is room for. */
  #goOn(): void {
    while (this.#running < this.#gate.allowed && !this.#stopping.signal.aborted) {
      const work = this.#ready.shift()
      if (work === undefined) break
      if (work.partition.isOpen && work.state === 'queued') this.#process(work)
    }
    if (this.#kafka !== null) this.#room.balance(this.#kafka, this.#partitions.all)
  }

  // ── 2. Attempt ──────────────────────────────────────────────────────────────────────────────────────────────────

  #process(work: RecordWork, probed: string | null = null): void {
    this.#running += 1
    work.state = 'running'
    work.partition.begin(work)
    this.#attempt(work, probed)
      .catch((err) => {
        this.#parts.log.error({ err, ...work.coordinates }, 'consumer.defect')
        this.#wait(work, pollFailedPauseMs)
      })
      .finally(() => {
        this.#running -= 1
        this.#goOn()
      })
  }

  async #attempt(work: RecordWork, probed: string | null): Promise<void> {
    const { run, clock } = this.#parts
    const turn = await this.#copies.reserve(work)
    if (work.partition.isGone) return this.#rest(work)
    if (turn === 'done') return this.#complete(work, 'duplicates')
    if (turn === 'elsewhere') return this.#wait(work, copyPauseMs)
    const startedAt = clock.steady()
    work.attempts += 1
    this.#tally.attempts += 1
    const attempted = await run(work, work.partition.signal)
    if (attempted.failure !== null) this.#tally.failures += 1
    // Another member has the partition: what became of the record here is not told to anybody.
    if (work.partition.isGone) return this.#rest(work)
    await this.#decide(work, attempted, { startedAt, probed })
  }

  // ── 3. Decide ───────────────────────────────────────────────────────────────────────────────────────────────────

  async #decide(
    work: RecordWork,
    { outcome, failure }: Attempted,
    { startedAt, probed }: Readonly<{ startedAt: number; probed: string | null }>,
  ): Promise<void> {
    const { dependencies, settings, clock, random } = this.#parts
    work.failure = failure
    this.#gate.noteOutcome(outcome)
    const dependency = outcome.kind === 'unavailable' ? (failure?.dependency ?? null) : null
    for (const name of new Set([probed, dependency])) {
      if (name !== null) await dependencies.note(name, outcome, startedAt, name === probed)
    }
    if (probed !== null && !dependencies.isOpen(probed)) this.#parked.release(probed)
    if (dependency !== null && settings.whenOpen === 'park') {
      // Nothing of its budget is spent: the record is not to blame.
      if (dependencies.isOpen(dependency)) {
        this.#rest(work)
        return this.#parked.add(work, dependency)
      }
      return this.#wait(work, delayAfter(settings.retry, work.attempts, random()))
    }
    if (dependency !== null && dependencies.isOpen(dependency)) {
      return settings.whenOpen === 'skip' ? this.#pass(work, 'breaker_open') : this.#bury(work, 'breaker_open')
    }
    work.tries += 1
    const step = stepAfter({
      outcome,
      tries: work.tries,
      policy: settings.retry,
      random: random(),
      now: clock.steady(),
    })
    switch (step.kind) {
      case 'done':
        return this.#complete(work, 'processed')
      case 'again':
        return this.#wait(work, step.dueAt - clock.steady())
      case 'hold':
        work.tries -= 1
        this.#gate.close('infrastructure')
        return this.#wait(work, 0)
      case 'dead':
        return dependency !== null && settings.whenOpen === 'skip'
          ? this.#pass(work, step.reason)
          : this.#bury(work, step.reason)
    }
  }

  // ── 4. End ──────────────────────────────────────────────────────────────────────────────────────────────────────

  async #complete(work: RecordWork, as: keyof Tally): Promise<void> {
    work.state = 'ended'
    if (as === 'processed') await this.#copies.confirm(work)
    else await this.#copies.release(work)
    if (work.partition.isGone) return work.partition.rest(work)
    this.#tally[as] += 1
    if (as === 'processed') this.#gate.noteProcessed()
    this.#room.remove(work)
    const next = work.partition.complete(work)
    if (next !== null) this.#ready.push(next)
  }

  /** Its lane waits, and its slot is free. */
  #wait(work: RecordWork, ms: number): void {
    work.state = 'waiting'
    this.#rest(work)
    setTimeout(() => this.#queue(work), Math.max(0, ms)).unref()
  }

  #queue(work: RecordWork): void {
    if (!work.partition.isOpen || work.state === 'ended') return
    work.state = 'queued'
    this.#ready.push(work)
    this.#goOn()
  }

  /** It has its slot back, and a copy of it may be processed meanwhile. */
  #rest(work: RecordWork): void {
    work.partition.rest(work)
    void this.#copies.release(work)
  }

  /** Logged, counted and passed: what the settings ask for instead of a dead letter. */
  #pass(work: RecordWork, reason: Reason): Promise<void> {
    const facts = { consumer: this.name, ...work.coordinates, reason, attempts: work.attempts, ...work.failure }
    this.#parts.log.error(facts, 'record.skipped')
    return this.#complete(work, 'skipped')
  }

  /** Its dead letter is written before its offset can move. Until then its lane is held. */
  async #bury(work: RecordWork, reason: Reason): Promise<void> {
    const { failure } = work
    if (this.#writer === null || failure === null) return this.#pass(work, reason)
    if (!this.#gate.mayBury()) {
      // It gets its last attempt again when the hold ends.
      work.tries -= 1
      return this.#wait(work, 0)
    }
    work.state = 'writing'
    // Its slot is free meanwhile, and its lane is not.
    this.#writing(this.#writer, work, reason, failure).catch((err) => this.#parts.log.error({ err }, 'consumer.defect'))
  }

  async #writing(writer: DeadLetterWriter, work: RecordWork, reason: Reason, failure: RecordFailure): Promise<void> {
    if (await writer.write(work, reason, failure)) await this.#complete(work, 'deadLetters')
    else work.partition.rest(work)
    this.#goOn()
  }

  // ── 5. Commit ───────────────────────────────────────────────────────────────────────────────────────────────────

  async #commit(): Promise<void> {
    if (this.#kafka !== null) await this.#commits.commit(this.#kafka, this.#partitions.all)
  }

  // ── Partitions that come and go ─────────────────────────────────────────────────────────────────────────────────

  async assigned(partitions: readonly Partition[]): Promise<void> {
    const { signal } = this.#stopping
    // Without it the records of these partitions could not be told from those that are done.
    for (let committed = null; committed === null && !signal.aborted; ) {
      committed = (await this.#kafka?.committed(partitions).catch((err) => this.#noteProblem(err))) ?? null
      if (committed === null) await rest(pollFailedPauseMs, signal)
      else this.#partitions.add(partitions, committed)
    }
    this.#parts.log.info({ consumer: this.name, partitions }, 'consumer.assigned')
  }

  async revoked(partitions: readonly Partition[]): Promise<void> {
    const works = this.#partitions.of(partitions)
    const drained = new AbortController()
    await Promise.race([
      Promise.all(works.map((work) => work.close())),
      rest(this.#parts.settings.drainMs, drained.signal),
    ])
    drained.abort()
    if (this.#kafka !== null) await this.#commits.commit(this.#kafka, works)
    for (const work of works) this.#drop(work)
    this.#parts.log.info({ consumer: this.name, partitions }, 'consumer.revoked')
  }

  lost(partitions: readonly Partition[]): void {
    for (const work of this.#partitions.of(partitions)) this.#drop(work)
    this.#parts.log.warn({ consumer: this.name, partitions }, 'consumer.lost')
  }

  #drop(partition: PartitionWork): void {
    for (const work of partition.records()) this.#room.remove(work)
    this.#room.forget(partition)
    this.#partitions.remove(partition)
  }

  // ── What people ask for ─────────────────────────────────────────────────────────────────────────────────────────

  /** Starts nothing until it is resumed; what is under way ends. */
  pause(): void {
    this.#gate.pause()
  }

  /** Goes on, whatever holds it. */
  resume(): void {
    this.#gate.open()
  }

  /** Closes the breaker of a dependency: a person says that it is well again. */
  async resetDependency(name: string): Promise<void> {
    await this.#parts.dependencies.reset(name)
    this.#parked.release(name)
  }

  /** Passes the oldest record of a partition that is not done, because a person says so. Answers whether it was. */
  async skip(at: Partition, offset: number): Promise<boolean> {
    const work = this.#partitions.get(at)?.find(offset) ?? null
    if (work === null || work.state === 'running') return false
    this.#parked.remove(work)
    this.#parts.log.warn({ consumer: this.name, ...work.coordinates }, 'record.skipped_by_hand')
    await this.#complete(work, 'skipped')
    this.#goOn()
    return true
  }

  // ── To see it ───────────────────────────────────────────────────────────────────────────────────────────────────

  snapshot(): ConsumerSnapshot {
    const { settings, dependencies } = this.#parts
    const { name, group, topics } = settings
    return {
      name,
      group,
      topics,
      hold: this.#gate.hold,
      problem: this.#problem ?? this.#commits.problem,
      partitions: this.#partitions.all.map((work) => partitionSnapshot(work, this.#room.isPaused(work))),
      breakers: dependencies.open,
      budgetUsed: this.#gate.budgetUsed,
      tally: { ...this.#tally },
    }
  }
}
