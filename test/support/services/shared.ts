import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { importsOf } from '../../tidy/scan.ts'
import { sweep } from './folders.ts'
import { kafkaClient } from './kafka-client.ts'
import { startKafka } from './kafka-server.ts'
import { ServiceMissing } from './missing.ts'
import { notDurable, startPostgres } from './postgres-server.ts'
import { startRedis } from './redis-server.ts'
import type { Service } from './service.ts'

export type Shared = Readonly<{
  /** What the tests need to find them, or why they are missing. */
  env: Readonly<Record<string, string>>
  close(): Promise<void>
}>

const root = path.join(import.meta.dirname, '..', '..', '..')

/** The servers that all test files of a run share, and what else takes long to get. What is configured stays as it is. */
const shared: readonly Shareable[] = [
  {
    title: 'PostgreSQL',
    neededBy: 'test/support/postgres.ts',
    variable: 'POSTHORN_TEST_POSTGRES',
    value: 'URL',
    start: () => startPostgres({ settings: notDurable }).then(started),
  },
  {
    title: 'Redis',
    neededBy: 'test/support/redis.ts',
    variable: 'POSTHORN_TEST_REDIS',
    value: 'URL',
    start: () => startRedis().then(started),
  },
  {
    title: 'Kafka',
    neededBy: 'test/support/kafka.ts',
    variable: 'POSTHORN_TEST_KAFKA',
    value: 'BROKERS',
    start: () => startKafka().then(started),
  },
  {
    title: 'Kafka client',
    neededBy: 'test/support/kafka.ts',
    variable: 'POSTHORN_TEST_KAFKA_CLIENT',
    value: 'FOLDER',
    start: async () => ({ value: kafkaClient(), says: 'built', discard: async () => {} }),
  },
]

type Shareable = Readonly<{
  title: string
  neededBy: string
  /** With `_` and the name of its value, or `_MISSING`, it is what the tests read. */
  variable: string
  value: string
  start(): Promise<Started>
}>

type Started = Readonly<{ value: string; says: string; discard(): Promise<void> }>

function started(service: Service): Started {
  return { value: service.url, says: `started on port ${service.port}`, discard: () => service.discard() }
}

/** Starts what these test files import, however indirectly. */
export async function startShared(files: readonly string[]): Promise<Shared> {
  const imported = closure(files)
  const isNeeded = ({ neededBy, variable, value }: Shareable) =>
    imported.has(neededBy) && !process.env[`${variable}_${value}`]
  const needed = shared.filter(isNeeded)
  if (needed.length > 0) sweep()
  const env: Record<string, string> = {}
  const running: Started[] = []
  for (const { title, variable, value, start } of needed) {
    try {
      const it = await start()
      running.push(it)
      env[`${variable}_${value}`] = it.value
      console.error(`# ${title}: ${it.says}`)
    } catch (error) {
      if (!(error instanceof ServiceMissing)) throw error
      env[`${variable}_MISSING`] = error.message
      console.error(`# ${title}: ${error.message}`)
    }
  }
  const close = async () => {
    await Promise.all(running.map((it) => it.discard()))
  }
  return { env, close }
}

function closure(files: readonly string[]): ReadonlySet<string> {
  const seen = new Set<string>()
  const open = [...files]
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (seen.has(file) || !/^(?:test|bench)\/.*\.ts$/.test(file)) continue
    seen.add(file)
    const full = path.join(root, file)
    // Some tests quote imports of files that do not exist; of the others the compiler complains.
    if (!existsSync(full)) continue
    const folder = path.posix.dirname(file)
    const targets = importsOf(readFileSync(full, 'utf8')).map(({ target }) => target)
    open.push(...targets.filter((target) => target.startsWith('.')).map((target) => path.posix.join(folder, target)))
  }
  return seen
}
