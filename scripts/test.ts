// `npm test`: the checks, then every test. `npm run check`: only the checks. `npm run torture`: only the long runs.
// `npm test -- <files, folders or node flags>`: just these, without the checks.
import { spawn } from 'node:child_process'
import { globSync, statSync } from 'node:fs'
import { constants } from 'node:os'
import path from 'node:path'
import { startShared } from '../test/support/services/shared.ts'

type Run = Readonly<{ title: string; args: readonly string[]; files: readonly string[] }>

const root = path.dirname(import.meta.dirname)
const TIDY = 'test/tidy.test.ts'
const FILES_AT_ONCE_MAX = 2
const TEST_TIMEOUT_MS = 5 * 60_000
const TORTURE_TIMEOUT_MS = 2 * 60 * 60_000

const CHECKS: readonly Run[] = [
  { title: 'tsc', args: ['node_modules/typescript/bin/tsc', '--noEmit'], files: [] },
  { title: 'biome', args: ['node_modules/@biomejs/biome/bin/biome', 'check', '--error-on-warnings'], files: [] },
  testRun('tidy', [TIDY]),
]

const [first, ...others] = process.argv.slice(2)
const runs = plan(first, others)
const failed: string[] = []
let killedBy: NodeJS.Signals | undefined
for (const run of runs) {
  if (killedBy !== undefined) break
  const code = await executeWithServices(run)
  if (code !== 0) failed.push(run.title)
}
if (failed.length > 0) console.error(`\nfailed: ${failed.join(', ')}`)
if (killedBy !== undefined) process.exit(128 + constants.signals[killedBy])
process.exit(failed.length === 0 ? 0 : 1)

function plan(first: string | undefined, others: readonly string[]): readonly Run[] {
  if (first === '--check') return CHECKS
  if (first === '--torture') return [tortureRun(others)]
  if (first !== undefined) return [chosenRun([first, ...others])]
  const files = [...testFiles('test'), ...testFiles('bench')].filter(
    (file) => file !== TIDY && !file.startsWith('test/torture/'),
  )
  return files.length === 0 ? CHECKS : [...CHECKS, testRun('tests', files)]
}

function tortureRun(args: readonly string[]): Run {
  const flags = [`--test-timeout=${TORTURE_TIMEOUT_MS}`, '--test-concurrency=1']
  return testRun('torture', testFiles('test/torture'), [...flags, ...args])
}

function chosenRun(args: readonly string[]): Run {
  const flags = args.filter((arg) => arg.startsWith('--'))
  const chosen = args.filter((arg) => !arg.startsWith('--'))
  return testRun(
    'tests',
    chosen.length === 0 ? [...testFiles('test'), ...testFiles('bench')] : chosen.flatMap(filesOf),
    flags,
  )
}

function filesOf(arg: string): readonly string[] {
  const file = path.relative(root, path.resolve(arg))
  const found = statSync(path.join(root, file), { throwIfNoEntry: false })
  if (found === undefined) stop(`there is no ${arg}`)
  return found.isDirectory() ? testFiles(file) : [file]
}

function testFiles(folder: string): readonly string[] {
  const found = globSync(`${folder}/**/*.test.ts`, { cwd: root })
  return found.map((file) => file.split(path.sep).join('/')).sort()
}

function testRun(title: string, files: readonly string[], flags: readonly string[] = []): Run {
  // A run of nothing is green by nature: an empty list means that the search is broken, not that all is well.
  if (files.length === 0) stop(`${title}: no test file was found`)
  const usual = ['--test-reporter=spec', `--test-concurrency=${FILES_AT_ONCE_MAX}`, `--test-timeout=${TEST_TIMEOUT_MS}`]
  return { title, args: ['--test', ...usual, ...flags, ...files], files }
}

/** The servers end with this process at the latest, also when it is killed. */
async function executeWithServices(run: Run): Promise<number> {
  const services = await startShared(run.files)
  try {
    return await execute(run, services.env)
  } finally {
    await services.close()
  }
}

function execute(run: Run, env: NodeJS.ProcessEnv): Promise<number> {
  console.error(`# ${run.title}`)
  const startedAt = performance.now()
  return new Promise((resolve) => {
    const child = spawn(process.execPath, run.args, {
      cwd: root,
      stdio: 'inherit',
      env: { ...process.env, ...env },
    })
    const pass = (signal: NodeJS.Signals) => {
      killedBy = signal
      child.kill(signal)
    }
    const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
    for (const signal of signals) process.on(signal, pass)
    child.on('error', (error) => stop(`${run.title} could not be started: ${error.message}`))
    child.on('exit', (code, signal) => {
      for (const name of signals) process.off(name, pass)
      const tookS = ((performance.now() - startedAt) / 1000).toFixed(1)
      console.error(`# ${run.title}: ${code === 0 ? 'ok' : `failed (${signal ?? `exit ${code}`})`} in ${tookS} s`)
      resolve(code ?? 1)
    })
  })
}

function stop(message: string): never {
  console.error(message)
  process.exit(1)
}
