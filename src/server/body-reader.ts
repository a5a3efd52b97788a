import { Buffer } from 'node:buffer'
import type { IncomingMessage } from 'node:http'

/** Whether the request itself says that its body is larger. */
export function isDeclaredLarger(request: IncomingMessage, bytesMax: number): boolean {
  return Number(request.headers['content-length'] ?? 0) > bytesMax
}

/**
 * Reads a body on node's own request. `done` gets its bytes, or null when there are more than may be: those are read
 * and thrown away, so that the client gets to see the answer. It is not called when the client goes away.
 */
export function readBody(request: IncomingMessage, bytesMax: number, done: (body: Buffer | null) => void): void {
  let chunks: Buffer[] = []
  let size = 0
  request.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= bytesMax) chunks.push(chunk)
    else chunks = []
  })
  request.on('end', () => {
    const [first] = chunks
    if (size > bytesMax) done(null)
    else done(chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks))
  })
}
