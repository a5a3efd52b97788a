import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type ServerProcess, startServer } from '../support/server-process.ts'
import { tempFolder } from '../support/sqlite.ts'
import { openWatch, type Watch } from '../support/watch.ts'

const endpoints = 1_000
const bodyBytes = 1_000_000
const memoryBytesMax = 16 * 1024 * 1024
const heapMb = 128
/** Node itself, its heap, the bound, and connections. One copy per delivery would be a gigabyte. */
const rssMbMax = 450

test('one large event to 1,000 endpoints is in memory once: fresh, and after a kill with all of it pending', {
  timeout: 240_000,
}, async (t) => {
  const folder = await tempFolder()
  t.after(() => folder.remove())
  const database = join(folder.path, 'posthorn.db')
  const receiver = await openReceiver(t)
  const env = {
    POSTHORN_MEMORY_BYTES_MAX: String(memoryBytesMax),
    NODE_OPTIONS: `--max-old-space-size=${heapMb}`,
  }
  const paused = await startServer({ database, env: { ...env, POSTHORN_PAUSED: 'yes' } })
  await addEndpoints(paused, receiver.url)
  await send(paused)
  await paused.kill()

  const server = await startServer({ database, env })
  try {
    assert.equal((await fetch(`${server.url}/readyz`)).status, 200)
    await receiver.watch.until(() => receiver.held.length === endpoints)
    assert.equal(receiver.wrong, 0)
    assert.equal(receiver.paths.size, endpoints)
    receiver.answerAll()
    await send(server)
    await receiver.watch.until(() => receiver.held.length === endpoints)
    receiver.answerAll()
    const peak = peakRssMb(server)
    if (peak === null) t.diagnostic('peak memory is not measured: there is no /proc')
    else assert.ok(peak < rssMbMax, `${peak} MB`)
  } finally {
    assert.equal(await server.stop(), 0)
  }
})

type Receiver = Readonly<{
  url: string
  watch: Watch
  /** Requests that have come in whole and got no answer yet. */
  held: ServerResponse[]
  paths: Set<string>
  /** Bodies of another length than was sent. */
  readonly wrong: number
  answerAll(): void
}>

/** Takes every request and answers none before it is told to: whatever the sender keeps for them, it keeps for all. */
async function openReceiver(t: TestContext): Promise<Receiver> {
  const watch = openWatch()
  const held: ServerResponse[] = []
  const paths = new Set<string>()
  let wrong = 0
  const server = createServer((request, response) => {
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    request.on('end', () => {
      if (bytes !== bodyBytes) wrong += 1
      paths.add(request.url ?? '')
      held.push(response)
      watch.look()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    watch,
    held,
    paths,
    get wrong() {
      return wrong
    },
    answerAll() {
      for (const response of held.splice(0)) response.end()
    },
  }
}

async function addEndpoints(server: ServerProcess, to: string): Promise<void> {
  for (let n = 0; n < endpoints; n += 50) {
    const made = Array.from({ length: 50 }, (_, i) => {
      const endpoint = { kind: 'http', url: `${to}/${n + i}`, types: ['*'], timeout: '5m' }
      const headers = { 'content-type': 'application/json' }
      return fetch(`${server.url}/v1/endpoints`, { method: 'POST', headers, body: JSON.stringify(endpoint) })
    })
    for (const response of await Promise.all(made)) assert.equal(response.status, 201, await response.text())
  }
}

async function send(server: ServerProcess): Promise<void> {
  const headers = { 'content-type': 'application/octet-stream' }
  const body = Buffer.alloc(bodyBytes, 0x61)
  const response = await fetch(`${server.url}/v1/events/wide`, { method: 'POST', headers, body })
  assert.equal(response.status, 202, await response.text())
}

/** The most that the process ever had. */
function peakRssMb({ child }: ServerProcess): number | null {
  const file = `/proc/${child.pid}/status`
  if (!existsSync(file)) return null
  const [, kib] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(file, 'utf8')) ?? []
  return Math.round(Number(kib) / 1_024)
}
