import type { Reason } from '../core/outcome.ts'
import { stepAfter } from '../core/record-step.ts'
import { delayAfter } from '../core/retry-policy.ts'
import type { KafkaConsumer, KafkaRecord, Partition, PartitionOwner } from '../kafka/driver.ts'
import { rest } from '../store/pace.ts'
import { Commits } from './commits.ts'
import type { Attempted, ConsumerParts } from './consumer-parts.ts'
import { Copies } from './copies.ts'
import { DeadLetterWriter } from './dead-letter-writer.ts'
import { type ParkedListener, ParkedRecords } from './parked-records.ts'
import type { PartitionWork } from './partition-work.ts'
import { Partitions } from './partitions.ts'
import { Problem } from './problem.ts'
import { Queue } from './queue.ts'
import type { RecordFailure, RecordWork } from './record-work.ts'
import { Room } from './room.ts'
import { type ConsumerSnapshot, partitionSnapshot, type Tally, tallyOfNothing } from './snapshot.ts'
import { StartGate } from './start-gate.ts'

const pollFailedPauseMs = 1_000
/** A copy of the record is being processed: soon it is known whether that has succeeded. */
const copyPauseMs = 500
const parkedCheckMs = 1_000
/** The group waits for the last commit of a partition that moves, and not for ever. */
const commitMsMax = 10_000

/**
 * A member of a consumer group: receive → attempt → decide → end → commit, for records in lanes.
 *
 * An offset is committed only when everything below it is done: processed, or a dead letter that has been acknowledged
 * (where the settings say so: logged and passed). A record that fails keeps its lane until then and gives its slot back.
 */
export class Consumer implements PartitionOwner, ParkedListener {
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
  readonly #problem: Problem
  #stopped: Promise<void> | null = null

  constructor(parts: ConsumerParts) {
    this.#parts = parts
    const { settings, log, dependencies, deadLetters } = parts
    this.#parked = new ParkedRecords(dependencies, this)
    this.#partitions = new Partitions(settings.ordering)
    this.#room = new Room(settings)
    this.#commits = new Commits(log)
    this.#copies = new Copies(parts.copies)
    this.#writer = deadLetters === null ? null : new DeadLetterWriter({ ...parts, deadLetters })
    this.#problem = new Problem(log, settings.name)
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
    for (const partition of this.#partitions.all) this.#drop(partition)
  }

  // ── 1. Receive ──────────────────────────────────────────────────────────────────────────────────────────────────

  async #poll(kafka: KafkaConsumer): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      try {
        const records = await kafka.poll()
        this.#problem.end()
        for (const record of records) this.#receive(record)
        this.#goOn()
      } catch (err) {
        if (signal.aborted) return
        this.#problem.note(err)
        await rest(pollFailedPauseMs, signal)
      }
    }
  }

  #receive(record: KafkaRecord): void {
    const partition = this.#partitions.get(record)
    if (partition === undefined || !partition.isOpen) return
    const work = partition.receive(record)
    if (work === 'rewound') {
      this.#drop(partition)
      this.#partitions.add([record], [])
      // As a partition that is assigned anew: it is not paused.
      this.#kafka?.resume([record])
      this.#receive(record)
      return
    }
    if (work === null) return
    this.#room.add(work)
    if (partition.isHead(work)) this.#ready.push(work)
  }

  get mayStart(): boolean {
    return this.#running < this.#gate.allowed && !this.#stopping.signal.aborted
  }

  /** Starts what may start, and brings in as many records as there is room for. */
  #goOn(): void {
    while (this.mayStart) {
      const work = this.#ready.shift()
      if (work === undefined) break
      if (work.partition.isOpen && work.state === 'queued') this.#process(work)
    }
    if (this.#kafka !== null && !this.#stopping.signal.aborted) this.#room.balance(this.#kafka, this.#partitions)
  }

  // ── 2. Attempt ──────────────────────────────────────────────────────────────────────────────────────────────────

  probe(work: RecordWork, dependency: string): void {
    this.#process(work, dependency)
  }

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
    const isOver = work.partition.isGone || turn !== 'mine'
    if (isOver && probed !== null) await this.#parts.dependencies.abandonProbe(probed)
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
    this.#gate.noteOutcome(outcome, startedAt)
    const dependency = outcome.kind === 'unavailable' ? (failure?.dependency ?? null) : null
    await dependencies.noteAttempt({ outcome, startedAt, probed, dependency, isParking: settings.whenOpen === 'park' })
    if (work.partition.isGone) return this.#rest(work)
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
    if (!work.end()) return
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
    this.#rest(work)
    work.wait(ms, () => this.unparked(work))
  }

  unparked(work: RecordWork): void {
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
      work.tries = Math.max(0, work.tries - 1)
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
    if (this.#kafka !== null && !this.#commits.isBusy) await this.#commits.commit(this.#kafka, this.#partitions.all)
  }

  // ── Partitions that come and go ─────────────────────────────────────────────────────────────────────────────────

  async assigned(partitions: readonly Partition[]): Promise<void> {
    const { signal } = this.#stopping
    // Without it the records of these partitions could not be told from those that are done.
    for (let committed = null; committed === null && !signal.aborted; ) {
      committed = (await this.#kafka?.committed(partitions).catch((err) => this.#problem.note(err))) ?? null
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
    const committed = this.#kafka === null ? null : this.#commits.commit(this.#kafka, works)
    await Promise.race([committed, rest(commitMsMax, drained.signal)])
    drained.abort()
    for (const work of works) this.#drop(work)
    this.#parts.log.info({ consumer: this.name, partitions }, 'consumer.revoked')
  }

  lost(partitions: readonly Partition[]): void {
    for (const work of this.#partitions.of(partitions)) this.#drop(work)
    this.#parts.log.warn({ consumer: this.name, partitions }, 'consumer.lost')
  }

  #drop(partition: PartitionWork): void {
    for (const work of partition.records()) this.#room.remove(work)
    this.#ready.keep((work) => work.partition !== partition)
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
    if (work === null || work.state === 'running' || work.state === 'ended') return false
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
      problem: this.#problem.text ?? this.#commits.problem,
      partitions: this.#partitions.all.map((work) => partitionSnapshot(work, this.#room.isPaused(work))),
      breakers: dependencies.open,
      budgetUsed: this.#gate.budgetUsed,
      tally: { ...this.#tally },
    }
  }
}
