import { closeSync, openSync } from 'node:fs'
import { ProcessEngine } from '../../../src/engines/process-engine.ts'
import type { Logger } from '../../../src/log.ts'
import { aTask, never, textOf } from '../../engines/process-scene.ts'

// A program that has no file left to open when it needs a worker, and then has some again.

const log = { level: 'silent', info: () => {}, warn: () => {} } as unknown as Logger
const engine = new ProcessEngine({ name: 'orders', log, env: process.env, execArgv: [], workersMax: 1 })
const opened: number[] = []
try {
  for (;;) opened.push(openSync('/dev/null', 'r'))
} catch {
  console.log(textOf(await engine.run(aTask('returns'), never)))
}
for (const fd of opened) closeSync(fd)
console.log(textOf(await engine.run(aTask('returns'), never)))
await engine.stop()
