// The baseline of the end-to-end figure: takes an event in over node:http, sends it on with undici's `request()` and
// acknowledges it when the sink has said 200. Nothing is kept, signed, retried or checked.
import { Buffer } from 'node:buffer'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent, request } from 'undici'
import { serve } from './ipc.ts'

export type BaselineCommands = Readonly<{ listen: (argument: { sinkUrl: string }) => Promise<string> }>

const accepted = '{"id":"evt_00000000000000000000000","deliveries":1,"duplicate":false}'
const headers = { 'content-type': 'application/json' }
const dispatcher = new Agent({ connections: 256 })

const commands: BaselineCommands = {
  listen: ({ sinkUrl }) => {
    const server = createServer((incoming, response) => {
      void forward(incoming, sinkUrl).then((status) => {
        response.writeHead(status === 200 ? 202 : 502, headers).end(accepted)
      })
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

async function forward(incoming: IncomingMessage, sinkUrl: string): Promise<number> {
  try {
    const body = await bodyOf(incoming)
    const answer = await request(sinkUrl, { method: 'POST', headers, body, dispatcher })
    await answer.body.dump()
    return answer.statusCode
  } catch {
    return 0
  }
}

function bodyOf(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
  incoming.on('end', () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)))
  incoming.on('error', reject)
  return promise
}

serve(commands)
