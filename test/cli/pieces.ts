// A command that uses the pieces that many commands share, for the tests to drive on a terminal and in a pipe.
import { confirm } from '../../src/cli/confirm.ts'
import { describeFailure } from '../../src/cli/failure.ts'
import { openProgress } from '../../src/cli/progress.ts'
import { openTerminal } from '../../src/cli/terminal.ts'

const terminal = openTerminal(process.env)
const [piece = '', ...rest] = process.argv.slice(2)

try {
  if (piece === 'confirm') {
    terminal.print(String(await confirm(terminal, 'delete 12 dead letters?', { yes: rest.includes('--yes') })))
  } else {
    playProgress(piece === 'unknown-total' ? null : 2_000)
  }
} catch (error) {
  const { lines, exitCode } = describeFailure(error)
  for (const line of lines) terminal.say(line)
  process.exitCode = exitCode
}

/** Each update is a second after the one before. */
function playProgress(total: number | null): void {
  let seconds = 0
  const progress = openProgress(terminal, { label: 'dead letters replayed:', total }, () => seconds * 1_000)
  for (let done = 0; done <= 2_000; done += 100) {
    progress.update(done, done > 1_000 ? '3 failed' : '')
    seconds += 1
    if (done === 1_500) terminal.print('data in between')
  }
  progress.end()
  progress.end()
  progress.update(2_000)
  terminal.say('done')
}
