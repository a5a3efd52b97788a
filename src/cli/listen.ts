import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import { proxyFor } from '../core/proxy.ts'
import { routeTargetProblem } from '../core/relay.ts'
import type { HubEnd, HubEvent, Tried } from '../hub/hub-events.ts'
import { ApiClient, ApiProblem, Unreachable } from '../server/client.ts'
import { words } from './arguments.ts'
import { clientSettings } from './client-settings.ts'
import { CommandFailed, UsageError } from './failure.ts'
import { linkSayer, printTry } from './hub-lines.ts'
import { leftoverLines, listenRoute, openSetup, removeSetup, type Setup, type SetupWish } from './listen-setup.ts'
import { type Format, withFormat } from './output.ts'
import { untilStopped } from './signals.ts'
import type { Terminal } from './terminal.ts'
import { versionOf } from './version.ts'

type ListenFlags = SetupWish & Readonly<{ forward: string; output: Format }>

const ctrlC = '\u0003'
const ctrlD = '\u0004'

export function addListen(program: Command, terminal: Terminal): void {
  const listen = program
    .command('listen')
    .description('forward events to a server on this machine while you work on it, and print each request')
    .requiredOption('--forward <url>', 'where to, such as http://localhost:3000/webhooks')
    .option('--types <patterns>', "which events: 'order.*,invoice.paid' (default all); may be repeated", words)
    .option('--name <name>', 'keep the endpoint for the next run with this name; what comes meanwhile waits')
    .option('--tenant <name>', 'whose events')
  withFormat(listen).action((flags: ListenFlags) => runListen(flags, terminal))
}

async function runListen(flags: ListenFlags, terminal: Terminal): Promise<void> {
  const wrongTarget = routeTargetProblem(flags.forward)
  if (wrongTarget !== null) throw new UsageError(`--forward ${wrongTarget}`)
  terminal.neverWait()
  const signalled = untilStopped(terminal)
  const unread = new Promise<'SIGPIPE'>((resolve) => terminal.onUnread(() => resolve('SIGPIPE')))
  const stopped = Promise.race([signalled, unread])
  const client = new ApiClient(clientSettings(terminal.env))
  for (const line of await leftoverLines(client, flags)) terminal.say(line)
  const { setup, notes } = await openSetup(client, flags)
  for (const line of notes) terminal.say(line)
  let end: HubEnd = { kind: 'stopped' }
  const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-listen-'))
  try {
    end = await forward(terminal, { client, setup, flags, stopped, memoryFile: path.join(folder, 'hub.db') })
  } finally {
    rmSync(folder, { recursive: true, force: true })
    await cleanUp(terminal, client, setup, end)
  }
  if (end.kind !== 'stopped') throw new CommandFailed(end.message)
}

type Run = Readonly<{
  client: ApiClient
  setup: Setup
  flags: ListenFlags
  stopped: Promise<NodeJS.Signals>
  memoryFile: string
}>

/** Runs a hub until somebody ends it. */
async function forward(terminal: Terminal, { client, setup, flags, stopped, memoryFile }: Run): Promise<HubEnd> {
  const [{ openHub }, log] = await Promise.all([import('../hub/hub.ts'), quietLog(terminal)])
  let last: Tried | null = null
  let isClosed = false
  const sayLink = linkSayer(terminal)
  const onEvent = (event: HubEvent) => {
    if (isClosed) return
    if (event.kind !== 'tried') return sayLink(event)
    // The server here has not seen what was answered from memory.
    if (event.remembered) return
    last = event
    printTry(terminal, event, flags.output)
  }
  const hub = openHub({
    edge: client.url,
    key: setup.key,
    routes: new Map([[listenRoute, flags.forward]]),
    memoryFile,
    proxy: proxyFor(client.url, terminal.env),
    software: `posthorn-listen/${versionOf()}`,
    log,
    onEvent,
    showsTries: true,
  })
  const keys = terminal.onKey((key) => {
    if (key === 'r') void resend(terminal, client, last)
    // As without us: the signal's listener ends it, and a second one at once.
    if (key === 'q' || key === ctrlC || key === ctrlD) process.kill(process.pid, 'SIGINT')
  })
  terminal.say(`forwarding ${setup.types.join(', ')} to ${flags.forward}`)
  terminal.say(`signing secret: ${setup.secret}`)
  terminal.say(keys === null ? 'SIGINT ends it' : 'r sends the last one again, q ends it')
  hub.start()
  void stopped.then((signal) => {
    isClosed = signal === 'SIGHUP' || signal === 'SIGPIPE'
    return hub.stop()
  })
  try {
    return await hub.ended
  } finally {
    keys?.()
    await hub.stop()
  }
}

/** The lines are the log; whoever wants to know more can ask for it. */
async function quietLog(terminal: Terminal) {
  const [{ loadConfig }, { openLog }] = await Promise.all([import('../config.ts'), import('../log.ts')])
  const env = { ...terminal.env, POSTHORN_CONFIG: undefined }
  const { logLevel: level, logFormat: format } = loadConfig({ flags: {}, env, fallbacks: { logLevel: 'warn' } })
  return openLog({ level, format })
}

/** Its line is printed here before the server has heard of its end: so long it is still being tried there. */
const resendTriesMax = 20
const resendEveryMs = 100
const conflict = 409

async function resend(terminal: Terminal, client: ApiClient, last: Tried | null): Promise<void> {
  if (last === null) return terminal.say('nothing has come yet that could be sent again')
  for (let tries = 1; ; tries++) {
    try {
      await client.post(`/v1/deliveries/${encodeURIComponent(last.delivery)}/retry`)
      return terminal.say(`sending ${last.type} again (${last.delivery})`)
    } catch (error) {
      if (!(error instanceof ApiProblem || error instanceof Unreachable)) throw error
      const isEarly = error instanceof ApiProblem && error.status === conflict && tries < resendTriesMax
      if (!isEarly) return terminal.say(`it could not be sent again: ${error.message}`)
      await wait(resendEveryMs)
    }
  }
}

async function cleanUp(terminal: Terminal, client: ApiClient, setup: Setup, end: HubEnd): Promise<void> {
  if (setup.isKept) {
    const again = `posthorn listen --forward … --name ${setup.relayName}`
    terminal.say(end.kind === 'stopped' ? `what comes now waits for: ${again}` : `to go on: ${again}`)
    return
  }
  const left = await removeSetup(client, setup)
  if (left !== null) throw new CommandFailed(left)
  terminal.say(`${setup.endpointId} and ${setup.relayName} are removed`)
}
