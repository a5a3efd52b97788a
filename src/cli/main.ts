#!/usr/bin/env node
import { isMainThread } from 'node:worker_threads'
import { nodeProblem } from './node-version.ts'

// Nothing else is imported before the version is known to fit: the rest needs what older versions do not have.
const problem = nodeProblem(process.versions.node)
if (problem !== null) {
  process.stderr.write(`posthorn: ${problem}\n`)
  process.exitCode = 1
} else if (isMainThread) {
  const { keepCompiled } = await import('./compile-cache.ts')
  keepCompiled()
  const { openTerminal } = await import('./terminal.ts')
  const { run } = await import('./program.ts')
  const terminal = openTerminal(process.env)
  const exitCode = await run(process.argv.slice(2), terminal)
  // A command that failed half-way may leave a thread or a socket behind; the exit code is known, so leave.
  await terminal.flush()
  process.exit(exitCode)
}
