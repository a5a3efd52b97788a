// A process of its own with many WebSockets that say hello and then nothing but pongs: hubs with nothing to do.
import { WebSocket } from 'ws'
import { encode, protocolVersion } from '../src/transports/relay/protocol.ts'
import { serve } from './ipc.ts'

export type IdleHubsCommands = Readonly<{
  /** Opens one link per key and resolves when all have been answered. */
  connect: (argument: { url: string; keys: readonly string[] }) => Promise<number>
  close: (argument: null) => void
}>

const atOnceMax = 100
const links: WebSocket[] = []

async function open({ url, keys }: { url: string; keys: readonly string[] }): Promise<number> {
  let next = 0
  const opening = async () => {
    for (let key = keys[next++]; key !== undefined; key = keys[next++]) links.push(await link(url, key))
  }
  await Promise.all(Array.from({ length: atOnceMax }, opening))
  return links.length
}

function link(url: string, key: string): Promise<WebSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<WebSocket>()
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${key}` }, perMessageDeflate: false })
  socket.once('error', reject)
  socket.once('message', () => resolve(socket))
  socket.once('open', () => {
    const credit = { frames: 256, bytes: 8 << 20 }
    const hello = { kind: 'hello', version: protocolVersion, software: 'bench/1', session: 'idle' } as const
    socket.send(encode({ ...hello, routes: ['bench'], credit, frameBytesMax: 2 << 20 }))
  })
  return promise
}

serve({
  connect: open,
  close: () => {
    for (const socket of links) socket.terminate()
  },
} satisfies IdleHubsCommands)
