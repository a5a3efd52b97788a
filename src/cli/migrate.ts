import type { Command } from 'commander'
import { type ConfigFlags, configFrom, withConfigFlags } from './config-flags.ts'
import { type Format, printItem, withFormat } from './output.ts'
import type { Terminal } from './terminal.ts'

type MigrateOptions = Readonly<{ output: Format; dryRun?: boolean }>

export function addMigrate(program: Command, terminal: Terminal): void {
  const migrate = program
    .command('migrate')
    .description('bring the database up to date (start does so by itself)')
    .option('--dry-run', 'only say what would be done')
  withFormat(withConfigFlags(migrate)).action((options: MigrateOptions) => runMigrate(options, terminal))
}

async function runMigrate({ output, dryRun = false, ...flags }: MigrateOptions, terminal: Terminal): Promise<void> {
  const config = await configFrom(flags as ConfigFlags, terminal)
  const { databaseAt } = await import('../store/open-store.ts')
  const result = await databaseAt(config).migrate({ dryRun })
  if (output !== 'table') return printItem(terminal, output, { ...result, dryRun })
  for (const name of result.applied) terminal.print(name)
  const where = `version ${result.to}`
  if (result.applied.length === 0) terminal.say(`the database is up to date (${where})`)
  else if (dryRun) terminal.say(`would go from version ${result.from} to ${where}; nothing was changed`)
  else terminal.say(`went from version ${result.from} to ${where}`)
}
