import { ProcessEngine } from '../../../src/engines/process-engine.ts'
import type { Logger } from '../../../src/log.ts'
import { aTask, never } from '../../engines/process-scene.ts'

// A program with a worker that spins in its handler, one that spins while it loads, and one that is idle and
// has left a process behind. It says which these are, and waits to be killed.

const [to = ''] = process.argv.slice(2)
const say = ({ pid, line }: { pid?: number; line?: string }, msg: string) => {
  if (msg === 'worker.started') console.log(pid)
  if (msg === 'worker.output') console.log(line)
}
const log = { level: 'info', info: say, warn: say } as unknown as Logger
const settings = { name: 'orders', log, env: process.env, execArgv: [], workersMax: 1 }
const spinsAtTop = { module: new URL('spins-at-top.ts', import.meta.url).href, export: 'default' }

await new ProcessEngine(settings).run(aTask('leavesAProcess'), never)
void new ProcessEngine(settings).run(aTask('', {}, { code: spinsAtTop }), never)
void new ProcessEngine(settings).run(aTask('spins', { to }), never)
setInterval(() => {}, 1_000)
