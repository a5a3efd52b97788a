// A process of its own between a hub and its edge: every byte takes half of the round trip, each way, in order.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { serve } from './ipc.ts'

export type SlowLinkCommands = Readonly<{
  listen: (argument: { port: number; roundTripMs: number }) => Promise<number>
}>

const sockets = new Set<Socket>()

function listen({ port, roundTripMs }: { port: number; roundTripMs: number }): Promise<number> {
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ host: '127.0.0.1', port, noDelay: true })
    carry(near, far, roundTripMs / 2)
    carry(far, near, roundTripMs / 2)
  })
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.once('error', reject)
  server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  return promise
}

/** Timers of one length fire in the order in which they were set, so bytes keep their order. */
function carry(from: Socket, to: Socket, delayMs: number): void {
  sockets.add(from)
  const later = (work: () => void) => (delayMs === 0 ? work() : void setTimeout(work, delayMs))
  from.on('data', (chunk) => later(() => to.destroyed || to.write(chunk)))
  from.on('error', () => from.destroy())
  from.on('close', () => {
    sockets.delete(from)
    later(() => to.destroy())
  })
}

serve({ listen } satisfies SlowLinkCommands)
