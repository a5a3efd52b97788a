import { readFileSync } from 'node:fs'
import { type Config, loadConfig } from '../config.ts'
import { PosthornError } from '../core/errors.ts'
import { relayNameProblem, routeTargetProblem } from '../core/relay.ts'
import { didYouMean } from '../core/spelling.ts'
import { isRow } from './answers.ts'
import { UsageError } from './failure.ts'
import type { Row } from './output.ts'
import type { Env } from './terminal.ts'

export type HubFlags = Readonly<{
  edge?: string
  key?: string
  keyFile?: string
  route?: readonly string[]
  memory?: string
  ca?: string
  compress?: boolean
  concurrency?: string
  config?: string
}>

export type ChosenHub = Readonly<{
  edge: string
  key: string
  routes: ReadonlyMap<string, string>
  memoryFile: string
  /** PEM; null: what Node trusts anyway. */
  ca: string | null
  compress: boolean
  /** null: the hub's own default. */
  concurrency: number | null
  log: Readonly<{ level: Config['logLevel']; format: Config['logFormat'] }>
}>

const memoryDefault = './data/posthorn-hub.db'
const fileFields = ['edge', 'key', 'keyFile', 'routes', 'memory', 'ca', 'compress', 'concurrency'] as const
type FileField = (typeof fileFields)[number]
type HubFile = Readonly<Partial<Record<FileField, unknown>>>

/** Flag, else environment, else file, else default. Throws one `UsageError` with everything that is wrong. */
export function hubFrom(flags: HubFlags, env: Env): ChosenHub {
  const problems: string[] = []
  const file = hubFile(flags.config, problems)
  const routes = routesFrom(flags.route ?? [], file, problems)
  const memoryFile = flags.memory ?? textIn(file, 'memory', problems) ?? memoryDefault
  const ca = certificates(flags.ca ?? textIn(file, 'ca', problems), problems)
  const compress = flags.compress ?? flagIn(file, 'compress', problems) ?? false
  const config = configFor(flags, env, file, problems)
  if (config !== null && config.edge === null) {
    problems.push('there is no edge: say --edge wss://edge.example, or set POSTHORN_EDGE')
  }
  if (config !== null && config.relayKey === null) {
    problems.push('there is no key: say --key-file <file>, or set POSTHORN_RELAY_KEY (posthorn relays create shows it)')
  }
  if (problems.length > 0 || config === null || config.edge === null || config.relayKey === null) {
    throw new UsageError(['the settings of the hub are not valid:', ...problems].join('\n  '))
  }
  const concurrency = config.given.concurrency.origin === 'default' ? null : config.concurrency
  const log = { level: config.logLevel, format: config.logFormat }
  return { edge: config.edge, key: config.relayKey, routes, memoryFile, ca, compress, concurrency, log }
}

/** What the hub shares with the server is read by the same rules; null when they find something wrong. */
function configFor(flags: HubFlags, env: Env, file: HubFile, problems: string[]): Config | null {
  const edge = flags.edge ?? (env.POSTHORN_EDGE ? undefined : textIn(file, 'edge', problems))
  const relayKey = keyFrom(flags, env, file, problems)
  const concurrency = flags.concurrency ?? numberIn(file, problems)
  const places: Readonly<Record<string, string>> = {
    edge: flags.edge === undefined ? 'edge in the file' : '--edge',
    relayKey: relayKey?.place ?? '',
    concurrency: flags.concurrency === undefined ? 'concurrency in the file' : '--concurrency',
  }
  try {
    return loadConfig({
      flags: { edge, relayKey: relayKey?.text, concurrency },
      // These say something else, to a server.
      env: { ...env, POSTHORN_CONFIG: undefined, POSTHORN_CONCURRENCY: undefined },
      flagName: (name) => places[name] ?? name,
    })
  } catch (error) {
    if (!(error instanceof PosthornError)) throw error
    problems.push(...error.message.split('\n  ').slice(1))
    return null
  }
}

type KeyText = Readonly<{ text: string; place: string }>

function keyFrom(flags: HubFlags, env: Env, file: HubFile, problems: string[]): KeyText | null {
  const key = textIn(file, 'key', problems)
  const keyFile = textIn(file, 'keyFile', problems)
  if (flags.key !== undefined && flags.keyFile !== undefined) problems.push('--key and --key-file exclude each other')
  if (key !== undefined && keyFile !== undefined) problems.push('key and keyFile in the file exclude each other')
  if (flags.key !== undefined) return { text: flags.key, place: '--key' }
  if (flags.keyFile !== undefined) return keyIn(flags.keyFile, problems)
  if (env.POSTHORN_RELAY_KEY) return null
  if (key !== undefined) return { text: key, place: 'key in the file' }
  return keyFile === undefined ? null : keyIn(keyFile, problems)
}

function keyIn(path: string, problems: string[]): KeyText | null {
  const text = contents(path, problems)?.trim()
  return text === undefined ? null : { text, place: `what is in ${path}` }
}

/** A route of the command line takes the place of the one that has its name in the file. */
function routesFrom(said: readonly string[], file: HubFile, problems: string[]): ReadonlyMap<string, string> {
  const routes = new Map<string, string>()
  const named = file.routes ?? {}
  if (!isRow(named)) problems.push('routes in the file must be an object: {"github": "http://127.0.0.1:8123/hook"}')
  for (const [name, url] of isRow(named) ? Object.entries(named) : []) {
    if (typeof url === 'string') addRoute(routes, name, url, `routes.${name} in the file`, problems)
    else problems.push(`routes.${name} in the file must be a text`)
  }
  const seen = new Set<string>()
  for (const text of said) {
    const at = text.indexOf('=')
    const name = text.slice(0, Math.max(at, 0)).trim()
    if (at < 1) problems.push(`--route ${text} must read like github=http://127.0.0.1:8123/hook`)
    else if (seen.has(name)) problems.push(`--route ${name} is said twice`)
    else addRoute(routes, name, text.slice(at + 1).trim(), `--route ${name}`, problems)
    seen.add(name)
  }
  if (said.length === 0 && isRow(named) && Object.keys(named).length === 0) {
    problems.push('there is no route: say --route github=http://127.0.0.1:8123/hook')
  }
  return routes
}

function addRoute(routes: Map<string, string>, name: string, url: string, place: string, problems: string[]): void {
  const wrongName = relayNameProblem(name)
  if (wrongName !== null) problems.push(`${place}: the name ${wrongName}`)
  const wrongTarget = routeTargetProblem(url)
  if (wrongTarget !== null) problems.push(`${place} ${wrongTarget}`)
  routes.set(name, url)
}

function certificates(path: string | undefined, problems: string[]): string | null {
  if (path === undefined) return null
  const pem = contents(path, problems)
  if (pem !== null && !pem.includes('-----BEGIN CERTIFICATE-----')) {
    problems.push(`${path} must hold certificates in PEM (-----BEGIN CERTIFICATE-----)`)
  }
  return pem
}

function contents(path: string, problems: string[]): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    problems.push(`${path} cannot be read: ${error instanceof Error ? error.message : error}`)
    return null
  }
}

function hubFile(path: string | undefined, problems: string[]): HubFile {
  const text = path === undefined ? null : contents(path, problems)
  if (text === null) return {}
  const value = parsed(text)
  if (!isRow(value)) {
    problems.push(`${path} must be a JSON object: {"edge": "wss://edge.example", "keyFile": "…", "routes": {…}}`)
    return {}
  }
  const known: readonly string[] = fileFields
  for (const name of Object.keys(value).filter((field) => !known.includes(field))) {
    problems.push(`${path}: ${name} is not a setting of the hub${didYouMean(name, known)}`)
  }
  return value
}

/** Undefined for what is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function textIn(file: Row, name: FileField, problems: string[]): string | undefined {
  const value = file[name] ?? undefined
  if (value === undefined || typeof value === 'string') return value
  problems.push(`${name} in the file must be a text`)
  return undefined
}

function numberIn(file: Row, problems: string[]): string | undefined {
  const value = file.concurrency ?? undefined
  if (value === undefined || typeof value === 'number') return value === undefined ? value : String(value)
  problems.push('concurrency in the file must be a number')
  return undefined
}

function flagIn(file: Row, name: FileField, problems: string[]): boolean | undefined {
  const value = file[name] ?? undefined
  if (value === undefined || typeof value === 'boolean') return value
  problems.push(`${name} in the file must be true or false`)
  return undefined
}
