// A hub with short waits: what `posthorn relay` runs, with the timing that a test gives. Events go to stdout as JSON.
import { openHub } from '../../src/hub/hub.ts'
import { openLog } from '../../src/log.ts'

const { routes, ...given } = JSON.parse(process.argv[2] ?? '{}')
const hub = openHub({
  ...given,
  routes: new Map(Object.entries<string>(routes)),
  software: 'posthorn/test',
  log: openLog({ level: 'warn', format: 'json' }),
  onEvent: (event) => process.stdout.write(`${JSON.stringify(event)}\n`),
})
process.once('SIGTERM', () => void hub.stop())
hub.start()
const end = await hub.ended
await hub.stop()
if (end.kind !== 'stopped') process.stderr.write(`${end.message}\n`)
process.exitCode = end.kind === 'stopped' ? 0 : 1
