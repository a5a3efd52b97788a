import assert from 'node:assert/strict'
import { aSchema } from './postgres.ts'
import { testKey } from './postgres-store.ts'
import { type ServerProcess, startServer } from './server-process.ts'

export type Members = AsyncDisposable &
  Readonly<{
    /** The database that they share. */
    url: string
    /** `enter` is a command in front of it that becomes the server. */
    start(env?: Record<string, string>, enter?: readonly string[]): Promise<ServerProcess>
  }>

/** Real servers that share one schema of the test's database. */
export async function openMembers(): Promise<Members> {
  const place = await aSchema()
  const started: ServerProcess[] = []
  return {
    url: place.url,
    async start(env = {}, enter = []) {
      const server = await startServer({
        database: place.url,
        env: { POSTHORN_ENCRYPTION_KEY: testKey.toString('hex'), ...env },
        enter,
      })
      started.push(server)
      return server
    },
    async [Symbol.asyncDispose]() {
      for (const server of started) await server.kill()
      await place.drop()
    },
  }
}

/** What one of them answers; anything but a success fails the test. */
export async function call<T>({ url }: ServerProcess, method: string, path: string, body?: unknown): Promise<T> {
  const init = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
  const response = await fetch(`${url}${path}`, { method, ...init })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
  return JSON.parse(text) as T
}
