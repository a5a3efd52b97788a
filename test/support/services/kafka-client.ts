import { existsSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { findTool, install, onPath } from '../debian.ts'
import { kafkaFiles } from './kafka-programs.ts'
import { ServiceMissing } from './missing.ts'
import { prepare, preparedFolder } from './prepared.ts'

const wanted = path.join(kafkaFiles, 'client')
const buildMsMax = 15 * 60_000
/** What the build asks for, by a command or a file of the package. */
const needs = [
  { packageName: 'g++', isThere: () => onPath('g++') !== null },
  { packageName: 'make', isThere: () => onPath('make') !== null },
  { packageName: 'python3', isThere: () => onPath('python3') !== null },
  { packageName: 'libssl-dev', isThere: () => existsSync('/usr/include/openssl/ssl.h') },
  { packageName: 'zlib1g-dev', isThere: () => existsSync('/usr/include/zlib.h') },
]

/** One for each Node: the client is compiled for its binary interface. */
const name = path.join('kafka', `client-${process.versions.modules}`)

/**
 * A folder from which `@confluentinc/kafka-javascript` can be required. It is no dependency of the project because it
 * runs a script when it is installed, which takes minutes where there are no binaries for the Node.
 */
export function kafkaClient(): string {
  const home = preparedFolder(name)
  if (isCurrent(home)) return home
  rmSync(home, { recursive: true, force: true })
  const problem = missingPackage() ?? build()
  if (problem !== null) throw new ServiceMissing(`the Kafka client could not be built: ${problem}`)
  return home
}

/** Not one of another version, built before the lock file changed. */
function isCurrent(home: string): boolean {
  const built = path.join(home, 'package-lock.json')
  return existsSync(built) && readFileSync(built).equals(readFileSync(path.join(wanted, 'package-lock.json')))
}

function missingPackage(): string | null {
  if (process.platform !== 'linux') return null
  const missing = needs.filter(({ isThere }) => !isThere())
  const problems = missing.map(({ packageName }) => ({ packageName, why: install(packageName) }))
  const failed = problems.find(({ why }) => why !== null)
  return failed === undefined ? null : `Debian package ${failed.packageName}: ${failed.why}`
}

function build(): string | null {
  const node = path.dirname(path.dirname(process.execPath))
  const hasHeaders = existsSync(path.join(node, 'include', 'node', 'node.h'))
  return prepare({
    name,
    script: 'cp "$2"/package*.json "$1" && cd "$1" && npm ci --no-audit --no-fund',
    args: [wanted],
    env: {
      CKJS_LINKING: 'dynamic',
      npm_config_build_from_source: 'true',
      // Without it the headers come from the network.
      ...(hasHeaders ? { npm_config_nodedir: node } : {}),
    },
    msMax: buildMsMax,
  })
}

/** `kcat`, an independent client: what our driver says is checked against what this one sees. */
export function kcatProgram(): string {
  const tool = findTool('kcat', 'kcat')
  if (tool.kind === 'found') return tool.path
  throw new ServiceMissing(tool.why)
}
