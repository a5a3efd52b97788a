// Sources on a real server, and providers that call them.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Json, Reply, Served } from './served.ts'

export const secret = 'a-secret-of-two-sides'
let names = 0

/** A source with a name that no other test uses. */
export async function aSource(served: Served, fields: object = {}): Promise<Json> {
  names += 1
  const all = { name: `s-${names}`, provider: 'github', secret, ...fields }
  const reply = await served.call('POST', '/v1/sources', all)
  assert.equal(reply.status, 201, reply.text)
  return reply.json
}

type Headers = Readonly<Record<string, string>>

export function githubHeaders(body: string | Uint8Array, delivery: string, key = secret): Headers {
  const signature = createHmac('sha256', key).update(body).digest('hex')
  return {
    'x-hub-signature-256': `sha256=${signature}`,
    'x-github-delivery': delivery,
    'x-github-event': 'push',
    'content-type': 'application/json',
  }
}

/** What GitHub would send. */
export function fromGithub(served: Served, path: string, body: string | Uint8Array, delivery: string): Promise<Reply> {
  return served.call('POST', path, body, githubHeaders(body, delivery))
}

/** The event as the API shows it. */
export async function eventOf(served: Served, reply: Reply): Promise<Json> {
  assert.equal(reply.status, 202, reply.text)
  return (await served.call('GET', `/v1/events/${reply.json.id}`)).json
}

/** Sends bytes as they are and answers what came back until the server closed the connection. */
export async function rawExchange(url: string, bytes: string | Uint8Array): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let answer = ''
  socket.setEncoding('latin1').on('data', (text: string) => {
    answer += text
  })
  socket.on('error', () => {})
  socket.write(bytes)
  await once(socket, 'close')
  return answer
}

/** Sends bytes and hangs up. */
export async function cutOff(url: string, bytes: string): Promise<void> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  await new Promise<void>((resolve) => socket.write(bytes, () => resolve()))
  socket.end()
  socket.resume()
  await once(socket, 'close')
}
