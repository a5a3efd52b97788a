// The style of this project as functions: each rule looks at files and returns what it found wrong, with the reason.
import { functionsOf, importsOf, lineAt, mask } from './scan.ts'

export type SourceFile = Readonly<{ path: string; text: string }>
export type Finding = Readonly<{ path: string; line?: number; why: string }>
export type Rule = (files: readonly SourceFile[]) => readonly Finding[]

const FILE_LINES_MAX = 400
const FUNCTION_LINES_MAX = 60
/** A few files may be long; most are not. */
const FILE_LINES_MEDIAN_MAX = 100

/** The files that stand between those who decide and those who act: anyone above an adapter may know these. */
const PORTS = [
  'store/store.ts',
  'store/cluster-store.ts',
  'store/pipeline-store.ts',
  'store/record-store.ts',
  'store/registry-store.ts',
  'store/registry.ts',
  'store/replay-store.ts',
  'store/upkeep-store.ts',
  'store/pace.ts',
  'shared-state/shared-state.ts',
  ...['transports/transport.ts', 'transports/relay-gate.ts', 'engines/engine.ts', 'notices.ts'],
]

/** Who may import whom below src/: folders end in a slash, files are named. Everyone may import their own folder. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  'core/': [],
  'intake/': ['core/', 'log.ts', 'hmac.ts', ...PORTS],
  // The connection of Postgres' hints carries the bus.
  'store/': ['core/', 'log.ts', 'shared-state/bus.ts'],
  'transports/': ['core/', 'log.ts', 'hmac.ts', 'engines/engine.ts', 'engines/run-report.ts'],
  'engines/': ['core/', 'log.ts'],
  'kafka/': ['core/'],
  'shared-state/': [
    ...['core/', 'log.ts', 'notices.ts', 'store/open-store.ts', 'store/postgres/', 'store/secret-box.ts'],
  ],
  'dispatch/': ['core/', 'log.ts', ...PORTS],
  'consumer/': [
    ...['core/', 'log.ts', ...PORTS, 'engines/run-report.ts', 'kafka/driver.ts', 'kafka/kafka-error.ts'],
    'shared-state/dedup.ts',
  ],
  'upkeep/': ['core/', 'log.ts', ...PORTS, 'dispatch/'],
  'server/': ['core/', 'log.ts', ...PORTS, 'intake/', 'dispatch/', 'upkeep/', 'config.ts'],
  'cli/': [
    ...[
      'core/',
      'log.ts',
      'stdio.ts',
      'hmac.ts',
      'config.ts',
      'app.ts',
      'library/',
      'hub/',
      'index.ts',
      'server/client.ts',
    ],
    // For commands that look at a database without a server.
    ...['store/database.ts', 'store/open-store.ts', 'store/import.ts', 'shared-state/'],
    // How sizes and hosts are read, for commands that need no configuration.
    'config-values.ts',
    // `simulate` reads a policy as the API does.
    ...['server/schemas.ts', 'server/retry-schema.ts', 'server/breaker-schema.ts'],
  ],
  // A program of its own, for the machine behind NAT: it brings the adapters that it needs.
  'hub/': ['core/', 'log.ts', 'clock.ts', 'transports/', 'store/hub-memory.ts', 'store/sqlite/'],
  'log.ts': ['core/', 'stdio.ts'],
  'stdio.ts': [],
  'clock.ts': ['core/'],
  'hmac.ts': ['core/'],
  'notices.ts': ['core/'],
  'config.ts': ['core/', 'log.ts', 'config-values.ts'],
  'config-values.ts': ['core/'],
  // The composition root: the one place that knows every adapter.
  'app.ts': [
    ...['core/', 'intake/', 'store/', 'dispatch/', 'transports/', 'engines/', 'consumer/', 'shared-state/'],
    ...['kafka/', 'upkeep/', 'server/', 'config.ts', 'log.ts', 'clock.ts', 'notices.ts'],
  ],
  // What embeds Posthorn: the same words as the REST API, so the same schemas.
  'library/': [
    ...['core/', 'log.ts', ...PORTS, 'intake/', 'dispatch/', 'server/', 'config.ts', 'app.ts'],
    ...['consumer/', 'kafka/driver.ts', 'shared-state/dedup.ts'],
  ],
  'index.ts': ['core/', 'library/', 'app.ts', 'config.ts', ...PORTS],
}

/** Each driver has one home; what is not listed here may be used anywhere but in core. */
const HOMES: Readonly<Record<string, string>> = {
  'node:sqlite': 'store/sqlite/',
  pg: 'store/postgres/',
  redis: 'shared-state/',
  '@confluentinc/kafka-javascript': 'kafka/confluent/',
  undici: 'transports/http/',
  'ipaddr.js': 'transports/http/',
  ws: 'transports/relay/',
  fastify: 'server/',
  commander: 'cli/',
  'prom-client': 'upkeep/',
  pino: 'log.ts',
  'pino-pretty': 'log.ts',
}

export const importTable: Rule = (files) =>
  files.filter(isSource).flatMap(({ path, text }) =>
    importsOf(text).flatMap(({ target, line }) => {
      const why = target.startsWith('.') ? whyNotImport(path, target) : whyNotDriver(path, target)
      return why === undefined ? [] : [{ path, line, why }]
    }),
  )

function whyNotImport(path: string, target: string): string | undefined {
  const from = belowSource(path)
  const resolved = resolve(path, target)
  if (!resolved.startsWith('src/')) {
    const isAllowed = resolved === 'package.json' && ownerOf(from) !== 'core/'
    return isAllowed ? undefined : `imports ${resolved}, which lies outside src/`
  }
  const to = belowSource(resolved)
  const owner = ownerOf(from)
  const allowed = MAY_IMPORT[owner]
  if (allowed === undefined) return `${owner} has no row in the import table (test/tidy/rules.ts)`
  if (covers(owner, to) || allowed.some((entry) => covers(entry, to))) return undefined
  return `imports ${to}, but ${owner} may import only ${['its own folder', ...allowed].join(', ')}`
}

function whyNotDriver(path: string, target: string): string | undefined {
  const from = belowSource(path)
  if (ownerOf(from) === 'core/') return `imports ${target}, but core imports nothing from outside core`
  const name = Object.keys(HOMES).find((driver) => target === driver || target.startsWith(`${driver}/`))
  const home = name === undefined ? undefined : HOMES[name]
  return home === undefined || covers(home, from) ? undefined : `imports ${target}, whose only home is src/${home}`
}

const IMPURE: readonly (readonly [RegExp, string])[] = [
  [/\bDate\.now\b|\bnew Date\b(?!\s*\(\s*[^)\s])|(?<!new )\bDate\(/g, 'asks the clock; take `now` as an argument'],
  [/\bperformance\b/g, 'asks the clock; take `now` as an argument'],
  [/\bMath\.random\b/g, 'draws a random number; take `random` as an argument'],
  [/\bcrypto\b/g, 'uses crypto; take the function as an argument'],
  [/\b(?:setTimeout|setInterval|setImmediate|queueMicrotask)\b/g, 'waits; core only decides'],
  [/(?<![.\w])process\s*\./g, 'touches the process'],
  [/(?<![.\w])(?:globalThis|console)\b/g, 'reaches for the surroundings'],
  [/(?<![.\w])fetch\s*\(/g, 'talks to the network'],
  [/\bBuffer\b/g, 'uses Buffer; Uint8Array is enough'],
  [/\bawait\b|\basync\b(?!\s*[:?])/g, 'is asynchronous; what needs `await` belongs outside core'],
]

export const corePurity: Rule = (files) =>
  files
    .filter(({ path }) => path.startsWith('src/core/') && path.endsWith('.ts'))
    .flatMap((file) => {
      const code = mask(file.text)
      return IMPURE.flatMap(([pattern, why]) => matches(file, code, pattern, (found) => `core ${why}: ${found}`))
    })

export const sizes: Rule = (files) => [...typicalSize(files), ...files.filter(isCode).flatMap(sizeOf)]

function sizeOf({ path, text }: SourceFile): readonly Finding[] {
  const isTest = path.startsWith('test/') || path.startsWith('bench/')
  const lines = linesOf(text)
  const tooLong = lines > FILE_LINES_MAX ? [{ path, why: `${lines} lines; a file has at most ${FILE_LINES_MAX}` }] : []
  return isTest ? tooLong : [...tooLong, ...longFunctions(path, text)]
}

function typicalSize(files: readonly SourceFile[]): readonly Finding[] {
  const lengths = files.filter(isSource).map(({ text }) => linesOf(text))
  const median = lengths.sort((a, b) => a - b)[Math.floor(lengths.length / 2)] ?? 0
  const why = `half of the files have ${median} lines or more; the median is at most ${FILE_LINES_MEDIAN_MAX}`
  return median > FILE_LINES_MEDIAN_MAX ? [{ path: 'src', why }] : []
}

function linesOf(text: string): number {
  return text.replace(/\n$/, '').split('\n').length
}

function longFunctions(path: string, text: string): readonly Finding[] {
  return functionsOf(text).flatMap(({ firstLine, lastLine, header }) => {
    const lines = lastLine - firstLine + 1
    const why = `${lines} lines; a function has at most ${FUNCTION_LINES_MAX}: ${header}`
    return lines > FUNCTION_LINES_MAX ? [{ path, line: firstLine, why }] : []
  })
}

const ENTRIES = ['src/index.ts', 'src/cli/main.ts']

export const noOrphans: Rule = (files) => {
  const sources = new Map(files.filter(isSource).map((file) => [file.path, file.text]))
  // While the tree is being started there is nothing yet to be reached from.
  if (!ENTRIES.every((entry) => sources.has(entry))) return []
  const reached = closure(ENTRIES, sources)
  return [...sources.keys()]
    .filter((path) => !reached.has(path))
    .map((path) => ({ path, why: `nothing reachable from ${ENTRIES.join(' or ')} imports it` }))
}

function closure(from: readonly string[], sources: ReadonlyMap<string, string>): ReadonlySet<string> {
  const reached = new Set<string>()
  const open = [...from]
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    const text = sources.get(path)
    if (text === undefined || reached.has(path)) continue
    reached.add(path)
    for (const { target } of importsOf(text)) if (target.startsWith('.')) open.push(resolve(path, target))
  }
  return reached
}

export const coreTested: Rule = (files) => {
  const paths = new Set(files.map((file) => file.path))
  return files
    .filter(({ path }) => /^src\/core\/.*\.ts$/.test(path))
    .flatMap(({ path, text }) => {
      const test = path.replace(/^src\//, 'test/').replace(/\.ts$/, '.test.ts')
      const hasValues = /\bexport\s+(?!type\b|interface\b|declare\b)/.test(mask(text))
      return hasValues && !paths.has(test) ? [{ path, why: `has no ${test}` }] : []
    })
}

const CONFIGURATION = 'docs/configuration.md'
const KNOWN_NAMES = /\b(?:POSTHORN_[A-Z_]+|RETRY_BASE_DELAY|RETRY_MAX_DELAY|MAX_ATTEMPTS|DLQ_TOPIC_SUFFIX)\b/g
const READ_NAMES = /\bprocess\.env(?:\.|\[\s*['"`])(\w+)/g

export const environment: Rule = (files) => {
  const documented = files.find(({ path }) => path === CONFIGURATION)?.text ?? ''
  return files.filter(isSource).flatMap((file) => {
    const code = mask(file.text, 'code and strings')
    const names = [...code.matchAll(KNOWN_NAMES), ...code.matchAll(READ_NAMES)]
    const unknown = names.filter(([whole, name = whole]) => !new RegExp(`\\b${name}\\b`).test(documented))
    const undocumented = unknown.map(({ 0: whole, 1: name = whole, index }) => ({
      path: file.path,
      line: lineAt(file.text, index),
      why: `${name} is not explained in ${CONFIGURATION}`,
    }))
    return [...undocumented, ...strayReads(file, code)]
  })
}

function strayReads(file: SourceFile, code: string): readonly Finding[] {
  if (file.path === 'src/config.ts') return []
  if (!file.path.startsWith('src/cli/')) return matches(file, code, /\bprocess\.env\b/g, () => READ_ELSEWHERE)
  return matches(file, code, /\bprocess\.env\s*[.[]/g, () => `${READ_ELSEWHERE}; cli may only hand process.env on`)
}

const READ_ELSEWHERE = 'the environment is read in src/config.ts and nowhere else'

const VAGUE_FILE = /(?:^|\/)(?:[^/]*(?:managers?|helpers?|utils?|impl)\.[^/]+|types\.ts|(?:utils?|helpers?)\/.*)$/i
const VAGUE_NAME =
  /\b(?:class|interface|type|enum|function|const|let|var)\s+(\w*(?:Manager|Impl)|\w*(?:Helper|Util)\w*|(?:helper|util)[A-Z]\w*)\b/g

export const clearNames: Rule = (files) =>
  files.filter(isCode).flatMap((file) => {
    const vague = VAGUE_FILE.test(file.path)
      ? [{ path: file.path, why: 'the name says nothing; use a word of the glossary' }]
      : []
    const declared = matches(file, mask(file.text), VAGUE_NAME, (found) => `${found}: the name says nothing`)
    return [...vague, ...declared]
  })

export const noLeftovers: Rule = (files) =>
  files.flatMap((file) => {
    if (file.path === 'package-lock.json') return []
    const notes = matches(file, file.text, /\b(?:TO(?:DO)|FIX(?:ME))\b/g, (found) => `${found}: do it or open an issue`)
    if (!/\.test\.ts$/.test(file.path)) return notes
    const why = (found: string) => `${found}) leaves tests out; give { skip: reason } where a service is missing`
    return [...notes, ...matches(file, mask(file.text), /\.(?:only|skip)\s*\(/g, why)]
  })

const REGISTRY_HOST = /\bregistry\.(?:npmjs|yarnpkg)\.\w+|"resolved":\s*"https?:/g
const MACHINE_PATH = /(?<![\w.-]|:\/)\/(?:home|Users|root|work)\/[\w.-]+/g

export const noMachine: Rule = (files) =>
  files.flatMap((file) => [
    ...matches(file, file.text, REGISTRY_HOST, (found) => `${found}: names a registry host; any mirror must do`),
    ...matches(file, file.text, MACHINE_PATH, (found) => `${found}: a path of one machine`),
  ])

const writtenOut: Rule = (files) =>
  files.filter(isSource).flatMap((file) => {
    const code = mask(file.text)
    return [
      ...matches(
        file,
        code,
        /\.\.\.\{/g,
        () => 'an object is spread where it is written: write its fields into the outer one',
      ),
      ...matches(
        file,
        mask(file.text, 'code and strings'),
        /\.\.\.\[\s*['"`\d][^\]]*\](?!\s*\.)/g,
        () => 'a list is spread where it is written: write its items into the outer one',
      ),
      ...matches(file, code, /\bOmit<[^=;]*?>\s*&/g, () => 'a type is carved out of another and glued: name its parts'),
    ]
  })

export const RULES: Readonly<Record<string, Rule>> = {
  'imports follow the table': importTable,
  'core is pure': corePurity,
  'files and functions are short': sizes,
  'nothing is orphaned': noOrphans,
  'every rule of core has its test': coreTested,
  'every environment variable is documented and read in one place': environment,
  'types and objects are written out': writtenOut,
  'names say something': clearNames,
  'nothing is left over': noLeftovers,
  'no file knows a machine or a registry': noMachine,
}

function isCode({ path }: SourceFile): boolean {
  return /^(?:src|test|bench|scripts|examples)\/.*\.(?:ts|mjs)$/.test(path)
}

function isSource({ path }: SourceFile): boolean {
  return /^src\/.*\.ts$/.test(path)
}

function belowSource(path: string): string {
  return path.replace(/^src\//, '')
}

/** `store/sqlite/claim.ts` belongs to `store/`; `app.ts` to itself. */
function ownerOf(path: string): string {
  const slash = path.indexOf('/')
  return slash < 0 ? path : path.slice(0, slash + 1)
}

function covers(entry: string, path: string): boolean {
  return entry.endsWith('/') ? path.startsWith(entry) : path === entry
}

function resolve(from: string, target: string): string {
  return new URL(target, `file:///${from}`).pathname.slice(1)
}

function matches(file: SourceFile, text: string, pattern: RegExp, why: (found: string) => string): readonly Finding[] {
  const found = [...text.matchAll(pattern)]
  return found.map((match) => ({ path: file.path, line: lineAt(text, match.index), why: why(match[0].trim()) }))
}
