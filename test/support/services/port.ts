import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Below the ports that systems give to outgoing connections, so that a server that is down for a while keeps its own. */
const [first, end] = [15_000, 30_000]
const triesMax = 50

export async function freePort(): Promise<number> {
  for (let at = 0; at < triesMax; at++) {
    const port = randomInt(first, end)
    if (await isFree(port)) return port
  }
  throw new Error(`of ${triesMax} ports between ${first} and ${end}, none is free`)
}

function isFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const server = createServer()
  server.once('error', () => resolve(false))
  server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  return promise
}
