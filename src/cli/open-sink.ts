import type { Buffer } from 'node:buffer'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { verifySignature } from '../core/signature.ts'
import { standardHmac } from '../hmac.ts'
import { readUpTo } from '../server/client.ts'
import { describeStep, type Script, type Step, stepAt } from './sink-script.ts'

export type SinkOptions = Readonly<{
  host: string
  port: number
  script: Script
  /** How long every answer takes. */
  delayMs: number
  /** Keys that a signature may be made with; null: signatures are not looked at. */
  keys: readonly Uint8Array[] | null
  /** Called when the whole request is here and its answer is about to be given. */
  onRequest: (received: Received) => void
}>

/** One request as the sink saw it. */
export type Received = Readonly<{
  receivedAt: number
  method: string
  path: string
  eventType: string | null
  webhookId: string | null
  deliveryId: string | null
  attempt: number | null
  headers: IncomingMessage['headers']
  body: Buffer
  signature: 'ok' | 'bad' | 'unchecked'
  /** Why the signature is bad; null when it is not. */
  signatureProblem: string | null
  /** What the script says: a status, `reset` or `hang`. */
  answer: string
}>

export type Sink = Readonly<{ url: string; close: () => Promise<void> }>

const bodyBytesMax = 64 * 1024 * 1024

/** A scriptable endpoint: takes every request and does what the script says. */
export async function openSink(options: SinkOptions): Promise<Sink> {
  const closing = new AbortController()
  let count = 0
  const server = createServer((request, response) => {
    // The place in the script is taken on arrival, so that slow bodies do not change who gets which answer.
    const step = stepAt(options.script, count)
    count += 1
    // Broken off by the other side or by us: there is nobody left to answer.
    take(request, response, step, options, closing.signal).catch(() => request.destroy())
  })
  await listen(server, options)
  const { address, port, family } = server.address() as AddressInfo
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    close: async () => {
      closing.abort()
      await new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
    },
  }
}

function listen(server: Server, { host, port }: SinkOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

async function take(
  request: IncomingMessage,
  response: ServerResponse,
  step: Step,
  options: SinkOptions,
  signal: AbortSignal,
): Promise<void> {
  const body = await readUpTo(request, bodyBytesMax, 'the body')
  if (options.delayMs > 0) await wait(options.delayMs, undefined, { signal })
  options.onRequest(receivedFrom(request, body, step, options))
  switch (step.kind) {
    case 'reset':
      request.socket.resetAndDestroy()
      return
    case 'hang':
      return
    case 'answer':
      if (step.retryAfterS !== null) response.setHeader('retry-after', String(step.retryAfterS))
      response.writeHead(step.status).end()
  }
}

function receivedFrom(request: IncomingMessage, body: Buffer, step: Step, { keys }: SinkOptions): Received {
  const { headers } = request
  const receivedAt = Date.now()
  const signed = {
    id: textOf(headers['webhook-id']) ?? '',
    timestamp: textOf(headers['webhook-timestamp']) ?? '',
    signature: textOf(headers['webhook-signature']) ?? '',
    body,
  }
  const signatureProblem = keys === null ? null : verifySignature(standardHmac, keys, signed, receivedAt)
  const attempt = Number(headers['posthorn-attempt'])
  return {
    receivedAt,
    method: request.method ?? '',
    path: request.url ?? '',
    eventType: textOf(headers['posthorn-event-type']),
    webhookId: textOf(headers['webhook-id']),
    deliveryId: textOf(headers['posthorn-delivery']),
    attempt: Number.isInteger(attempt) ? attempt : null,
    headers,
    body,
    signature: keys === null ? 'unchecked' : signatureProblem === null ? 'ok' : 'bad',
    signatureProblem,
    answer: describeStep(step),
  }
}

function textOf(header: string | string[] | undefined): string | null {
  return typeof header === 'string' ? header : null
}
