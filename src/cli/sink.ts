import { type Command, InvalidArgumentError, Option } from 'commander'
import { parseSecret } from '../core/signature.ts'
import { durationMs, portNumber } from './arguments.ts'
import type { Received } from './open-sink.ts'
import { counted } from './output.ts'
import { untilStopped } from './signals.ts'
import { readScript, type Script, scriptRules } from './sink-script.ts'
import { printable, type Terminal } from './terminal.ts'

type SinkFlags = Readonly<{
  host: string
  port: number
  script: Script
  delay: number
  verify?: readonly Uint8Array[]
  quiet?: boolean
  body?: boolean
  output: 'table' | 'jsonl'
}>

export function addSink(program: Command, terminal: Terminal): void {
  program
    .command('sink')
    .description('an endpoint to try things with: prints what it gets, answers by a script')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <n>', 'port to listen on; 0 takes any free one', portNumber, 4900)
    .addOption(
      new Option('--script <script>', 'what to answer, such as 503x3,200').argParser(script).default([], '200'),
    )
    .addOption(new Option('--delay <duration>', 'how long every answer takes').argParser(durationMs).default(0, '0s'))
    .option('--verify <secret>', 'check the signatures with this whsec_… secret; may be repeated', secret)
    .option('--body', 'print the bodies too')
    .option('--quiet', 'print nothing but the count at the end')
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['table', 'jsonl']).default('table'))
    .addHelpText('after', `\n${scriptRules}`)
    .action((flags: SinkFlags) => runSink(flags, terminal))
}

async function runSink(flags: SinkFlags, terminal: Terminal): Promise<void> {
  terminal.neverWait()
  const stopped = untilStopped(terminal)
  let count = 0
  const { openSink } = await import('./open-sink.ts')
  const sink = await openSink({
    host: flags.host,
    port: flags.port,
    script: flags.script,
    delayMs: flags.delay,
    keys: flags.verify ?? null,
    onRequest: (received) => {
      count += 1
      if (!flags.quiet) printReceived(terminal, received, flags)
    },
  })
  terminal.say(`the sink listens on ${sink.url} (Ctrl-C ends it)`)
  await stopped
  await sink.close()
  terminal.say(`${counted(count, 'request')} received`)
}

function printReceived(terminal: Terminal, received: Received, { output, body }: SinkFlags): void {
  if (output === 'jsonl') {
    terminal.print(JSON.stringify(rowFrom(received, body ?? false)))
    return
  }
  const { method, path, eventType, webhookId, attempt, signature, signatureProblem, answer } = received
  const time = new Date(received.receivedAt).toISOString().slice(11, 23)
  const mark = `signature ${signature}${signatureProblem === null ? '' : ` (${signatureProblem})`}`
  const parts = [
    time,
    method,
    printable(path),
    printable(eventType ?? '-'),
    printable(webhookId ?? '-'),
    `attempt ${attempt ?? '-'}`,
    `${received.body.length} B`,
    signature === 'bad' ? terminal.paint('red', mark) : mark,
    `→ ${terminal.paint(answer.startsWith('2') ? 'green' : 'yellow', answer)}`,
  ]
  terminal.print(parts.join('  '))
  if (body) for (const line of received.body.toString('utf8').split(/\r?\n/)) terminal.print(`  | ${printable(line)}`)
}

function rowFrom(received: Received, withBody: boolean): Record<string, unknown> {
  const { receivedAt, headers: _, body, signatureProblem, ...facts } = received
  return {
    receivedAt: new Date(receivedAt).toISOString(),
    ...facts,
    size: body.length,
    ...(signatureProblem !== null && { signatureProblem }),
    ...(withBody && { body: body.toString('utf8') }),
  }
}

function script(text: string): Script {
  const read = readScript(text)
  if ('problem' in read) throw new InvalidArgumentError(read.problem)
  return read.script
}

function secret(text: string, previous: readonly Uint8Array[] = []): readonly Uint8Array[] {
  const key = parseSecret(text)
  if (key === null) throw new InvalidArgumentError('A secret reads whsec_ and then 24 to 64 bytes in base64.')
  return [...previous, key]
}
