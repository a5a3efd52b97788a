import assert from 'node:assert/strict'
import { test } from 'node:test'
import { folderFor, serverFor, sinkFor } from './server.ts'

const endpoints = 501

test('every delivery of an event is waited for and shown, also beyond one page', async (t) => {
  const server = await serverFor(t, folderFor(t))
  const sink = await sinkFor(t)
  const body = JSON.stringify({ url: sink.url, types: ['many.*'] })
  for (let count = 0; count < endpoints; count += 1) {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${server.url}/v1/endpoints`, { method: 'POST', body, headers })
    assert.equal(response.status, 201)
    await response.body?.cancel()
  }
  const sent = await server.cli(['send', 'many.wanted', '{}', '--wait', '-o', 'jsonl'])
  assert.equal(sent.code, 0, sent.stderr)
  const ids = sent.stdout
    .trimEnd()
    .split('\n')
    .map((line): string => JSON.parse(line).id)
  assert.equal(new Set(ids).size, endpoints)
  const { eventId } = JSON.parse(sent.stdout.split('\n')[0] ?? '')
  const event = await server.json<{ deliveries: { status: string }[] }>(['events', 'show', eventId])
  assert.equal(event.deliveries.filter(({ status }) => status === 'delivered').length, endpoints)
  const waited = await server.json<{ id: string; deliveries: unknown[] }>(['send', 'many.again', '{}', '--wait'])
  assert.equal(waited.deliveries.length, endpoints)
})
