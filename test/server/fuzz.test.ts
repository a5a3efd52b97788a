// The API against requests that are made from its own description.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { type Described, describedBy, type Operation } from './described.ts'
import { type Asked, requestsFor } from './requests.ts'
import { openServed, type Reply, type Served } from './served.ts'

const runsPerOperation = Number(process.env.FUZZ_RUNS ?? 25)

let served: Served
let endpoint: ScriptedEndpoint
let api: Described
/** Things that exist while nobody has deleted them. */
const ids: string[] = []

before(async () => {
  served = await openServed()
  endpoint = await openScriptedEndpoint((received) => ({ status: received.body.includes('bad') ? 400 : 200 }))
  api = describedBy((await served.call('GET', '/openapi.json')).json)
  const made = await served.call('POST', '/v1/endpoints', { url: endpoint.url })
  const event = await served.call('POST', '/v1/events', { type: 'order.created', data: 'good' })
  await served.call('POST', '/v1/events', { type: 'order.created', data: 'bad' })
  await Promise.all([endpoint.next(), endpoint.next()])
  const source = await served.call('POST', '/v1/sources', { name: 'plain', provider: 'none', type: 'plain' })
  const replay = await served.call('POST', '/v1/replays', { filter: { status: 'failed' }, rate: 1 })
  const relay = await served.call('POST', '/v1/relays', { name: 'home' })
  const behind = { kind: 'relay', relay: 'home', route: 'github', types: ['nothing'] }
  const leading = await served.call('POST', '/v1/endpoints', behind)
  const key = await served.call('POST', '/v1/keys', { role: 'read' })
  const deliveries = await served.call('GET', `/v1/deliveries?event=${event.json.id}`)
  for (const { json, text } of [made, event, source, replay, relay, leading, key]) {
    assert.ok(json?.id, text)
    ids.push(json.id)
  }
  ids.push(deliveries.json.items[0].id, 'plain', 'home')
})

after(async () => {
  await served.stop()
  await endpoint.close()
})

async function ask({ method }: Operation, { path, query, headers, body }: Asked): Promise<Reply | null> {
  const search = new URLSearchParams(
    Object.entries(query).map(([name, value]) => [name, value.toWellFormed()] as [string, string]),
  ).toString()
  const target = `${path}${search === '' ? '' : `?${search}`}`
  // The client cleans such paths itself, and would ask for something else.
  if (new URL(target, served.url).pathname !== path) return null
  if (method === 'GET' && path === '/v1/stream') return streamReply(target)
  return served.call(method, target, body, { ...headers })
}

/** A stream has no end: its head is enough. */
async function streamReply(target: string): Promise<Reply> {
  const stop = new AbortController()
  const response = await fetch(`${served.url}${target}`, { signal: stop.signal })
  const text = response.status === 200 ? '' : await response.text()
  stop.abort()
  return { status: response.status, headers: response.headers, text, json: null }
}

describe('requests made from the description are answered as described, and never with a defect', () => {
  test('every operation', { timeout: 240_000 }, async () => {
    const statuses = new Map<number, number>()
    for (const operation of api.operations) {
      await fc.assert(
        fc.asyncProperty(requestsFor(operation, api, ids), async (asked) => {
          const reply = await ask(operation, asked)
          if (reply === null) return
          statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1)
          assert.ok(reply.status < 500 || reply.status === 503, reply.text)
          api.check(operation, reply)
        }),
        { numRuns: runsPerOperation },
      )
    }
    // Who only ever hears "no" has tested nothing.
    for (const status of [200, 201, 202, 204, 400, 404, 422]) assert.ok(statuses.has(status), `no ${status} was seen`)
  })
})
