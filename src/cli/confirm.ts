import { UsageError } from './failure.ts'
import type { Terminal } from './terminal.ts'

/**
 * Whether to go on with something that cannot be undone. `question` ends in a question mark, such as
 * `delete 12 dead letters?`. Without a person to ask, only `--yes` is a yes.
 */
export async function confirm(
  terminal: Terminal,
  question: string,
  { yes }: Readonly<{ yes: boolean }>,
): Promise<boolean> {
  if (yes) return true
  if (!terminal.canAsk) throw new UsageError(`${question} Nobody is here to be asked: add --yes to do it.`)
  return /^y(?:es)?$/i.test(await terminal.ask(`${question} [y/N] `))
}
