import { PosthornError } from '../core/errors.ts'
import { noRecords, tallied } from './import-digest.ts'
import {
  type ImportProgress,
  type ImportSource,
  type ImportTarget,
  type PerKind,
  type Piece,
  type RecordKind,
  recordKinds,
  type Tally,
} from './import-records.ts'

export type ImportStep = 'copied' | 'verified'

export type ImportOptions = Readonly<{
  /** Counts, and refuses what would be refused; changes nothing. */
  dryRun: boolean
  now: () => number
  onProgress: (step: ImportStep, done: number, total: number) => void
}>

/** One kind of records on both sides. */
export type Compared = Readonly<{ kind: RecordKind; source: Tally; target: Tally; isSame: boolean }>

export type ImportReport =
  | Readonly<{ kind: 'counted'; counts: PerKind<number>; isBegun: boolean }>
  | Readonly<{ kind: 'was_done'; doneAt: number; copied: PerKind<Tally> }>
  | Readonly<{ kind: 'done' | 'differs'; compared: readonly Compared[]; isResumed: boolean }>

/** Copies a database into another one, or goes on where an earlier import was interrupted, and compares them. */
export async function runImport(
  source: ImportSource,
  target: ImportTarget,
  { dryRun, now, onProgress }: ImportOptions,
): Promise<ImportReport> {
  const found = await target.find()
  if (found !== null) refuseOther(found, source, target)
  if (found !== null && found.doneAt !== null) return { kind: 'was_done', doneAt: found.doneAt, copied: found.copied }
  if (dryRun) return { kind: 'counted', counts: source.counts, isBegun: found !== null }
  const begun = await target.begin(freshProgress(source), found)
  const total = totalOf(source.counts)
  const before = await copy(source, target, begun, (done) => onProgress('copied', done, total))
  const compared = await compare(source, target, before, (done) => onProgress('verified', done, total))
  const isResumed = found !== null
  if (!compared.every(({ isSame }) => isSame)) return { kind: 'differs', compared, isResumed }
  await target.finish(source.ends, { before, after: { ...before, doneAt: now() } })
  return { kind: 'done', compared, isResumed }
}

function refuseOther(found: ImportProgress, source: ImportSource, target: ImportTarget): void {
  if (found.sourceId !== source.id) {
    throw new PosthornError('conflict', `${target.name} holds an import of another database than ${source.name}.`)
  }
  if (found.sourceState === source.state) return
  const since = found.doneAt === null ? 'since its import began' : 'since it was imported'
  throw new PosthornError(
    'conflict',
    `${source.name} has changed ${since}. If servers use ${target.name} already, go on with those: what came into the file since is not there. Only if none has, drop its schema, which deletes all that is in it, and run the import again.`,
  )
}

function freshProgress({ id, state }: ImportSource): ImportProgress {
  const copied = Object.fromEntries(recordKinds.map((kind) => [kind, noRecords])) as PerKind<Tally>
  return { sourceId: id, sourceState: state, next: { kind: 'endpoints', after: null }, copied, doneAt: null }
}

/** Piece by piece: what was written before is not read again. */
async function copy(
  source: ImportSource,
  target: ImportTarget,
  begun: ImportProgress,
  onDone: (records: number) => void,
): Promise<ImportProgress> {
  let before = begun
  while (before.next !== null) {
    const { kind, after: from } = before.next
    const { records, next } = source.read(kind, from)
    const after: ImportProgress = {
      ...before,
      next: next === null ? kindAfter(kind) : { kind, after: next },
      copied: { ...before.copied, [kind]: tallied(before.copied[kind], records) },
    }
    await target.write(kind, records, { before, after })
    before = after
    onDone(countOf(before.copied))
  }
  return before
}

function kindAfter(kind: RecordKind): ImportProgress['next'] {
  const next = recordKinds[recordKinds.indexOf(kind) + 1]
  return next === undefined ? null : { kind: next, after: null }
}

/** Reads the target through. The source has been read, by this import or by the one that it goes on with. */
async function compare(
  source: ImportSource,
  target: ImportTarget,
  { copied }: ImportProgress,
  onDone: (records: number) => void,
): Promise<readonly Compared[]> {
  const compared: Compared[] = []
  let done = 0
  for (const kind of recordKinds) {
    let there = noRecords
    let after: string | null = null
    do {
      const { records, next }: Piece<RecordKind> = await target.read(kind, after)
      there = tallied(there, records)
      done += records.length
      onDone(done)
      after = next
    } while (after !== null)
    const here = { count: source.counts[kind], sum: copied[kind].sum }
    compared.push({ kind, source: here, target: there, isSame: here.count === there.count && here.sum === there.sum })
  }
  return compared
}

function totalOf(counts: PerKind<number>): number {
  return recordKinds.reduce((sum, kind) => sum + counts[kind], 0)
}

function countOf(tallies: PerKind<Tally>): number {
  return recordKinds.reduce((sum, kind) => sum + tallies[kind].count, 0)
}
