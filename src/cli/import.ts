import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import type { Config } from '../config.ts'
import { type DatabaseUrl, readDatabase, readEncryptionKey } from '../config-values.ts'
import type { Compared, ImportReport, ImportStep } from '../store/import.ts'
import { type ConfigFlags, configFrom, withConfigFlags } from './config-flags.ts'
import { CommandFailed, UsageError } from './failure.ts'
import { type Column, counted, type Format, ListPrinter, printItem, type Row, withFormat } from './output.ts'
import { openProgress, type Progress } from './progress.ts'
import type { Terminal } from './terminal.ts'

type ImportFlags = Readonly<{ output: Format; from: string; fromKey?: string; dryRun?: boolean }>
type SqliteFile = Extract<DatabaseUrl, { kind: 'sqlite' }>

const afterHelp = `
Copies everything, then reads it back and compares counts and checksums. The file stays as it is. No server may run on it
meanwhile, and none on the Postgres database. What was interrupted goes on where it was when the command is run again.

The key of the file: --from-key, else POSTHORN_IMPORT_KEY, else its key file, else POSTHORN_ENCRYPTION_KEY.
POSTHORN_ENCRYPTION_KEY is the key of the Postgres database.`

export function addImport(program: Command, terminal: Terminal): void {
  const command = program
    .command('import')
    .description('move a SQLite database into Postgres')
    .requiredOption('--from <url>', 'the database to move, such as sqlite:./data/posthorn.db')
    .option('--from-key <file>', 'its key file')
    .option('--dry-run', 'count what there is, and change nothing')
    .addHelpText('after', afterHelp)
  withFormat(withConfigFlags(command)).action((flags: ImportFlags) => importDatabase(flags, terminal))
}

async function importDatabase(flags: ImportFlags, terminal: Terminal): Promise<void> {
  const { output, from, fromKey, dryRun = false, ...configFlags } = flags
  const file = fileOf(from)
  const config = await configFrom(configFlags as ConfigFlags, terminal)
  if (config.database.kind !== 'postgres') {
    throw new UsageError('Name the Postgres database by --database or POSTHORN_DATABASE_URL: postgres://…')
  }
  const report = await run(file, { config, dryRun, key: keyOf(fromKey) ?? config.importKey }, terminal)
  print(report, output, terminal)
  for (const line of conclusionOf(report, file)) terminal.say(line)
}

function fileOf(from: string): SqliteFile {
  const reading = readDatabase(from)
  if ('problem' in reading) throw new UsageError(`--from ${reading.problem}`)
  if (reading.value.kind === 'sqlite') return reading.value
  throw new UsageError('--from must name a SQLite file, like sqlite:./data/posthorn.db')
}

function keyOf(file: string | undefined): Uint8Array | null {
  if (file === undefined) return null
  const reading = readEncryptionKey(readFileSync(file, 'utf8').trim())
  if ('problem' in reading) throw new UsageError(`What ${file} holds ${reading.problem}`)
  return reading.value
}

async function run(
  file: SqliteFile,
  { config, dryRun, key }: Readonly<{ config: Config; dryRun: boolean; key: Uint8Array | null }>,
  terminal: Terminal,
): Promise<ImportReport> {
  const [{ databaseAt }, { runImport }] = await Promise.all([
    import('../store/open-store.ts'),
    import('../store/import.ts'),
  ])
  const bars = openBars(terminal)
  const source = await databaseAt({ database: file, encryptionKey: key }).openExport(config.encryptionKey)
  try {
    const target = await databaseAt(config).openImport()
    try {
      return await runImport(source, target, { dryRun, now: Date.now, onProgress: bars.update })
    } finally {
      await target.close()
    }
  } finally {
    bars.end()
    source.close()
  }
}

/** A bar for each step, one after the other. */
function openBars(terminal: Terminal) {
  let open: Readonly<{ step: ImportStep; bar: Progress }> | null = null
  return {
    update: (step: ImportStep, done: number, total: number) => {
      if (open?.step !== step) {
        open?.bar.end()
        open = { step, bar: openProgress(terminal, { label: `records ${step}`, total }) }
      }
      open.bar.update(done)
    },
    end: () => open?.bar.end(),
  }
}

const words: Readonly<Record<string, string>> = {
  idempotencyKeys: 'idempotency keys',
  deadLetterHours: 'dead letters by hour',
}

const columns: readonly Column[] = [
  { title: 'RECORDS', show: ({ records }) => words[String(records)] ?? String(records) },
  { title: 'COUNT', show: ({ count }) => Number(count).toLocaleString('en') },
  { title: 'CHECKSUM', show: ({ checksum }) => String(checksum ?? '-') },
  { title: 'SAME', show: ({ isSame }) => (isSame === null ? '-' : isSame ? 'yes' : 'no') },
]

function print(report: ImportReport, output: Format, terminal: Terminal): void {
  const tables = tablesOf(report)
  if (output === 'table') {
    const printer = new ListPrinter(terminal, output, columns)
    printer.add(tables)
    printer.end('')
  } else {
    printItem(terminal, output, { ...factsOf(report), tables })
  }
}

function factsOf(report: ImportReport): Row {
  switch (report.kind) {
    case 'counted':
      return { status: 'dry_run', verified: false, isBegun: report.isBegun }
    case 'was_done':
      return { status: 'was_done', verified: true, doneAt: new Date(report.doneAt).toISOString() }
    case 'done':
      return { status: 'done', verified: true, isResumed: report.isResumed }
    case 'differs':
      return { status: 'differs', verified: false, isResumed: report.isResumed }
  }
}

function tablesOf(report: ImportReport): readonly Row[] {
  switch (report.kind) {
    case 'counted':
      return Object.entries(report.counts).map(([records, count]) => rowOf(records, { count, sum: null }, null))
    case 'was_done':
      return Object.entries(report.copied).map(([records, tally]) => rowOf(records, tally, true))
    case 'done':
    case 'differs':
      return report.compared.map(({ kind, source, isSame }) => rowOf(kind, source, isSame))
  }
}

function rowOf(
  records: string,
  { count, sum }: Readonly<{ count: number; sum: string | null }>,
  isSame: boolean | null,
): Row {
  return { records, count, checksum: sum, isSame }
}

/** What to tell the person at the end. */
function conclusionOf(report: ImportReport, { path }: SqliteFile): readonly string[] {
  switch (report.kind) {
    case 'counted':
      return [report.isBegun ? 'an import has begun and would go on; nothing was changed' : 'nothing was changed']
    case 'was_done':
      return [`the import was done at ${new Date(report.doneAt).toISOString()}; nothing is left to do`]
    case 'done':
      return [
        `imported ${totalOf(report.compared)}; counts and checksums are the same on both sides`,
        'next: set POSTHORN_DATABASE_URL to the Postgres URL and POSTHORN_ENCRYPTION_KEY to the key used here',
        'then run posthorn start',
        `keep ${path} and its key until you are sure; do not start a server on it again`,
      ]
    case 'differs':
      throw new CommandFailed(
        `${differences(report.compared)}\nNo server starts on this database. Drop its schema and run the import again.`,
      )
  }
}

function totalOf(compared: readonly Compared[]): string {
  return counted(
    compared.reduce((sum, { source }) => sum + source.count, 0),
    'record',
  )
}

function differences(compared: readonly Compared[]): string {
  const lines = compared
    .filter(({ isSame }) => !isSame)
    .map(({ kind, source, target }) => `  ${kind}: ${source.count} (${source.sum}) and ${target.count} (${target.sum})`)
  return `The two databases differ:\n${lines.join('\n')}`
}
