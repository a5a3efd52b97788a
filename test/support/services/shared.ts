import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { importsOf } from '../../tidy/scan.ts'
import { sweep } from './folders.ts'
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

/** The servers that all test files of a run share. Those that are configured stay as they are. */
const services = [
  {
    title: 'PostgreSQL',
    neededBy: 'test/support/postgres.ts',
    variable: 'POSTHORN_TEST_POSTGRES',
    start: () => startPostgres({ settings: notDurable }),
  },
  {
    title: 'Redis',
    neededBy: 'test/support/redis.ts',
    variable: 'POSTHORN_TEST_REDIS',
    start: () => startRedis(),
  },
] as const

/** Starts what these test files import, however indirectly. */
export async function startShared(files: readonly string[]): Promise<Shared> {
  const imported = closure(files)
  const needed = services.filter(({ neededBy, variable }) => imported.has(neededBy) && !process.env[`${variable}_URL`])
  if (needed.length > 0) sweep()
  const env: Record<string, string> = {}
  const started: Service[] = []
  for (const { title, variable, start } of needed) {
    try {
      const service = await start()
      started.push(service)
      env[`${variable}_URL`] = service.url
      console.error(`# ${title}: started on port ${service.port}`)
    } catch (error) {
      if (!(error instanceof ServiceMissing)) throw error
      env[`${variable}_MISSING`] = error.message
      console.error(`# ${title}: ${error.message}`)
    }
  }
  const close = async () => {
    await Promise.all(started.map((service) => service.discard()))
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
