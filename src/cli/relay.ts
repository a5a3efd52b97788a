import type { Command } from 'commander'
import { proxyFor } from '../core/proxy.ts'
import { saveCompiled } from './compile-cache.ts'
import { ShutOut } from './failure.ts'
import type { HubFlags } from './hub-flags.ts'
import { linkSayer } from './hub-lines.ts'
import { untilStopped } from './signals.ts'
import type { Terminal } from './terminal.ts'
import { versionOf } from './version.ts'

const afterHelp = `
The key is what "posthorn relays create" has shown. Every process of a machine can read a command line: rather than
--key use --key-file or POSTHORN_RELAY_KEY.

The file that --config names is JSON; what is said on the command line wins over it:
  {"edge": "wss://edge.example", "keyFile": "/etc/posthorn/relay-key", "memory": "./data/posthorn-hub.db",
   "routes": {"github": "http://127.0.0.1:8123/hook"}, "ca": "ca.pem", "compress": true, "concurrency": 50}

It comes back by itself when the link is lost. It ends when it is told to (exit code 0), and with exit code 3 when it
must not come back: the key was revoked, or another hub came with the same key.`

export function addRelay(program: Command, terminal: Terminal): void {
  program
    .command('relay')
    .description('run a hub: it fetches what an edge has for this machine and delivers it here')
    .option('--edge <url>', 'the edge to connect to, such as wss://edge.example (or POSTHORN_EDGE)')
    .option('--key-file <file>', 'read the key of this hub from a file')
    .option('--key <key>', 'the key of this hub, phr_… (or POSTHORN_RELAY_KEY)')
    .option('--route <name=url>', 'where a route leads, github=http://127.0.0.1:8123/hook; may be repeated', several)
    .option('--memory <file>', 'what it remembers of deliveries (default ./data/posthorn-hub.db)')
    .option('--ca <file>', 'trust these certificates (PEM) as well')
    .option('--compress', 'compress what goes over the link')
    .option('--concurrency <n>', 'tries in flight, per endpoint (default 100)')
    .option('--config <file>', 'read all of this from a JSON file')
    .addHelpText('after', afterHelp)
    .action((flags: HubFlags) => runHub(flags, terminal))
}

function several(text: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, text]
}

async function runHub(flags: HubFlags, terminal: Terminal): Promise<void> {
  const { hubFrom } = await import('./hub-flags.ts')
  const { log: logSettings, ca, concurrency, ...settings } = hubFrom(flags, terminal.env)
  terminal.neverWait()
  // Listening for signals begins before the hub does: a stop that comes early is kept until it can be obeyed.
  const stopped = untilStopped(terminal)
  const [{ openHub }, { openLog }] = await Promise.all([import('../hub/hub.ts'), import('../log.ts')])
  const hub = openHub({
    ...settings,
    ...(ca !== null && { ca }),
    ...(concurrency !== null && { concurrency }),
    proxy: proxyFor(settings.edge, terminal.env),
    software: `posthorn/${versionOf()}`,
    log: openLog(logSettings),
    onEvent: linkSayer(terminal),
  })
  hub.start()
  saveCompiled()
  const leaving = stopped.then(async (signal) => {
    terminal.say(`${signal}: finishing what has begun; once more to leave at once`)
    await hub.stop()
  })
  const end = await hub.ended
  if (end.kind !== 'stopped') {
    await hub.stop()
    throw new ShutOut(end.message)
  }
  await leaving
}
