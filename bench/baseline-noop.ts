// The baseline of the ingest figure: node:http that reads the body and answers 202 with a fixed JSON.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { BaselineCommands } from './baseline-forwarder.ts'
import { serve } from './ipc.ts'

const accepted = '{"id":"evt_00000000000000000000000","deliveries":1,"duplicate":false}'
const headers = { 'content-type': 'application/json' }

const commands: BaselineCommands = {
  listen: () => {
    let bytes = 0
    const server = createServer((incoming, response) => {
      incoming.on('data', (chunk: Uint8Array) => {
        bytes += chunk.length
      })
      incoming.on('end', () => response.writeHead(bytes > 0 ? 202 : 400, headers).end(accepted))
    })
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', 1024, () => {
      const { port } = server.address() as AddressInfo
      resolve(`http://127.0.0.1:${port}/v1/events`)
    })
    return promise
  },
}

serve(commands)
