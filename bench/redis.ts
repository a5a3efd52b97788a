import { accessSync, constants } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import path from 'node:path'
import { sleep } from './clock.ts'
import type { Rig } from './rig.ts'

const startMsMax = 10_000
const everyMs = 50

/** How a Redis keeps what it was told: a second may be lost, or nothing, as with us. */
export type Fsync = 'everysec' | 'always'

export type Redis = Readonly<{ port: number; pid: number }>

/** A Redis of the bench's own, with its log of writes in a folder of its own. */
export async function startRedis(rig: Rig, fsync: Fsync): Promise<Redis> {
  const port = await freePort()
  const settings = { port, bind: '127.0.0.1', dir: rig.tempDir(), save: '', appendonly: 'yes', appendfsync: fsync }
  const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
  const child = rig.spawn(program(), args, { stdio: 'ignore' })
  const giveUpAt = performance.now() + startMsMax
  while (!(await answers(port))) {
    if (performance.now() > giveUpAt) throw new Error(`Redis did not listen on port ${port} within ${startMsMax} ms`)
    await sleep(everyMs)
  }
  return { port, pid: child.pid ?? -1 }
}

function program(): string {
  const found = (process.env.PATH ?? '')
    .split(path.delimiter)
    .map((folder) => path.join(folder, 'redis-server'))
    .find(isProgram)
  if (found !== undefined) return found
  throw new Error('redis-server is not installed, and the figure compares with it: install the package redis-server')
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

async function freePort(): Promise<number> {
  const server = createServer()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen(0, '127.0.0.1', resolve)
  await promise
  const { port } = server.address() as AddressInfo
  await new Promise((done) => server.close(done))
  return port
}

function answers(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, '127.0.0.1', () => resolve(true))
  socket.once('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}
