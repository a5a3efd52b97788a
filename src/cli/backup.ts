import type { Command } from 'commander'
import type { Backup } from '../store/database.ts'
import { type ConfigFlags, configFrom, withConfigFlags } from './config-flags.ts'
import { counted, type Format, printItem, withFormat } from './output.ts'
import { openProgress } from './progress.ts'
import type { Terminal } from './terminal.ts'

type BackupOptions = Readonly<{ output: Format; withKey?: boolean }>

const kib = 1024
const mib = 1024 * kib

export function addBackup(program: Command, terminal: Terminal): void {
  const backup = program
    .command('backup')
    .argument('<file>', 'where the copy goes; it must not exist yet')
    .description('copy the database, whether a server runs on it or not')
    .option('--with-key', 'copy the encryption key too, to <file>.key')
    .addHelpText('after', '\nThe copy is consistent, read through and on disk when the command ends.')
  withFormat(withConfigFlags(backup)).action((target: string, options: BackupOptions) =>
    runBackup(target, options, terminal),
  )
}

async function runBackup(target: string, options: BackupOptions, terminal: Terminal): Promise<void> {
  const { output, withKey = false, ...flags } = options
  const config = await configFrom(flags as ConfigFlags, terminal)
  const { databaseAt } = await import('../store/open-store.ts')
  const progress = openProgress(terminal, { label: 'MiB copied', total: null })
  const onProgress = (bytes: number) => progress.update(Math.floor(bytes / mib))
  const copying = databaseAt(config).backup(target, { withKey, onProgress })
  const report = await copying.finally(() => progress.end())
  const { key, ...copied } = report
  const item = { file: target, ...copied, keyFile: key.kind === 'copied' ? key.file : null }
  if (output === 'table') terminal.print(target)
  else printItem(terminal, output, item)
  const size = report.bytes < mib ? `${Math.ceil(report.bytes / kib)} KiB` : `${(report.bytes / mib).toFixed(1)} MiB`
  const what = `${counted(report.events, 'event')} and ${counted(report.deliveries, 'delivery')}`
  terminal.say(`copied ${what} (${size}), and read the copy through`)
  terminal.say(advice(key))
}

/** A copy without its key is a copy without its secrets: nobody should find that out when they need it. */
function advice(key: Backup['key']): string {
  switch (key.kind) {
    case 'copied':
      return `${key.file} opens it: keep both, and not in the same place`
    case 'left':
      return `signing secrets in it can be read only with ${key.file}: keep a copy of that too (--with-key), elsewhere`
    case 'given':
      return 'signing secrets in it can be read only with POSTHORN_ENCRYPTION_KEY: keep a copy of that too, elsewhere'
  }
}
