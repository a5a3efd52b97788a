// The least that could be at the other end of so many WebSockets: `ws` alone, which answers the first message.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'
import { serve } from './ipc.ts'

export type WebSocketsCommands = Readonly<{ listen: (argument: null) => Promise<string> }>

function listen(): Promise<string> {
  const http = createServer()
  const server = new WebSocketServer({ noServer: true, perMessageDeflate: false, clientTracking: false })
  http.on('upgrade', (request, socket, head) => {
    server.handleUpgrade(request, socket, head, (link) => link.once('message', () => link.send('{"kind":"welcome"}')))
  })
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  http.once('error', reject)
  http.listen(0, '127.0.0.1', 4096, () => resolve(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`))
  return promise
}

serve({ listen } satisfies WebSocketsCommands)
