import type { Command } from 'commander'
import { ApiClient } from '../server/client.ts'
import { clientSettings } from './client-settings.ts'
import type { Terminal } from './terminal.ts'

/** All delivery at once; a single endpoint is paused with `endpoints pause`. */
export function addDispatch(program: Command, terminal: Terminal): void {
  const dispatch = program.command('dispatch').description('pause and resume all delivery')
  const change = async (verb: 'pause' | 'resume', done: string): Promise<void> => {
    await new ApiClient(clientSettings(terminal.env)).post(`/v1/dispatch/${verb}`)
    terminal.say(done)
  }
  dispatch
    .command('pause')
    .description('take events in and deliver none')
    .action(() => change('pause', 'nothing is delivered until: posthorn dispatch resume'))
  dispatch
    .command('resume')
    .description('deliver again, what has waited first')
    .action(() => change('resume', 'what waits is delivered now'))
}
