// Clients that ask and never read, against a server process of its own.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { type ServerProcess, startServer } from '../support/server-process.ts'
import { tempFolder } from '../support/sqlite.ts'

const connections = 400
/** What unread answers may hold (64 MiB), and as much again for the sockets and for what the garbage collector leaves. */
const growthMbMax = 200

test('unread answers to 40 requests on each of 400 connections hold a bounded part of the memory, and others are served', async (t) => {
  const server = await aServer(t)
  await warmUp(server, '/openapi.json')
  const before = peakRssMb(server)
  const sockets = await ask(server, 'GET /openapi.json', [30, 10])
  assert.equal((await fetch(`${server.url}/healthz`)).status, 200)
  const grownMb = peakRssMb(server) - before
  t.diagnostic(`${Math.round(grownMb)} MB more after ${connections} x 40 unread answers`)
  assert.ok(grownMb < growthMbMax, `${grownMb} MB more`)
  for (const socket of sockets) socket.destroy()
})

async function aServer(t: { after(end: () => Promise<void>): void }): Promise<ServerProcess> {
  const folder = await tempFolder()
  const server = await startServer({ database: join(folder.path, 'posthorn.db') })
  t.after(async () => {
    await server.kill()
    await folder.remove()
  })
  return server
}

/** Code that has run and buffers that were used once are no growth. */
async function warmUp({ url }: ServerProcess, path: string): Promise<void> {
  for (let i = 0; i < 20; i++) await (await fetch(`${url}${path}`)).arrayBuffer()
}

/** Connections that all ask, so many at a time, and read nothing: answered when each has begun to be, or was closed. */
async function ask({ url }: ServerProcess, what: string, times: readonly number[]): Promise<Socket[]> {
  const { port, host } = new URL(url)
  const request = `${what} HTTP/1.1\r\nhost: ${host}\r\n\r\n`
  const sockets = Array.from({ length: connections }, () => connect({ port: Number(port), host: '127.0.0.1' }))
  for (const socket of sockets) socket.on('error', () => {})
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  for (const count of times) {
    // Nothing reads: what is readable stays where it is.
    const begun = sockets.map((socket) => Promise.race([once(socket, 'readable'), once(socket, 'close')]))
    for (const socket of sockets) socket.write(request.repeat(count))
    if (count === times[0]) await Promise.all(begun)
  }
  return sockets
}

/** The most that the kernel ever counted. */
function peakRssMb({ child }: ServerProcess): number {
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
}
