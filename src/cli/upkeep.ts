import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import { ApiClient } from '../server/client.ts'
import { isRow, rowOf } from './answers.ts'
import { clientSettings } from './client-settings.ts'
import { type Field, type Format, fieldsOf, instantText, printItem, type Row, withFormat } from './output.ts'
import { openProgress } from './progress.ts'
import type { Terminal } from './terminal.ts'

type UpkeepOptions = Readonly<{ output: Format; now?: boolean }>

const lookAgainMs = 1_000

export function addUpkeep(program: Command, terminal: Terminal): void {
  const upkeep = program
    .command('upkeep')
    .description('see what was expired and deleted last, and when it is done again')
    .option('--now', 'do it now')
  withFormat(upkeep).action((options: UpkeepOptions) => runUpkeep(options, terminal))
}

async function runUpkeep({ output, now = false }: UpkeepOptions, terminal: Terminal): Promise<void> {
  const client = new ApiClient(clientSettings(terminal.env))
  const state = now ? await finished(client, terminal) : rowOf(await client.get('/v1/upkeep'))
  const last = isRow(state.last) ? state.last : null
  printItem(terminal, output, state, fieldsShown(terminal, state, last))
  const why = last === null ? null : reasonText(last.skipped)
  if (why !== null) terminal.say(why)
}

/** A run that takes long goes on without the request that began it. */
async function finished(client: ApiClient, terminal: Terminal): Promise<Row> {
  const progress = openProgress(terminal, { label: 'seconds of upkeep', total: null })
  let state = rowOf(await client.post('/v1/upkeep'))
  for (let seconds = 20; state.running === true; seconds += 1) {
    progress.update(seconds)
    await wait(lookAgainMs)
    state = rowOf(await client.get('/v1/upkeep'))
  }
  progress.end()
  return state
}

function fieldsShown(terminal: Terminal, { running, nextAt }: Row, last: Row | null): readonly Field[] {
  const next: Field[] = typeof nextAt === 'string' ? [['next', instantText(terminal, nextAt)]] : []
  const state: Field[] = running === true ? [['running', 'yes']] : []
  if (last === null) return [...state, ['last', 'not since the start'], ...next]
  const { startedAt } = last
  return [...state, ['last', instantText(terminal, startedAt)], ...fieldsOf(last, ['startedAt', 'full']), ...next]
}

function reasonText(skipped: unknown): string | null {
  switch (skipped) {
    case 'just_started':
      return 'nothing was expired or deleted: the server has just started (POSTHORN_UPKEEP_AFTER says how long it waits)'
    case 'clocks_apart':
      return "nothing was expired or deleted: the machine's clock was set by more than an hour since the server started; upkeep goes on when it has been right for 10 minutes"
    case 'stopping':
      return 'not everything was done: the server was stopped'
    default:
      return null
  }
}
