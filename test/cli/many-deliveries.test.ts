import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { widthOf } from '../../src/cli/table.ts'
import { hasScript, onTerminal } from './command.ts'
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

test('lists of long things fit the terminal', { skip: hasScript ? false : 'script is not installed' }, async (t) => {
  const server = await serverFor(t, folderFor(t))
  const sink = await sinkFor(t, '400')
  const url = `${sink.url}/${'a-long-path/'.repeat(10)}`
  await server.json(['endpoints', 'create', url, '--types', 'order.*', '--description', 'x'.repeat(200)])
  await server.cli(['send', `order.${'created.'.repeat(8)}now`, '{}', '--key', 'k'.repeat(90), '--wait'])
  for (const list of ['endpoints', 'events', 'deliveries']) {
    const { code, stdout } = await onTerminal([list, 'list'], { env: { POSTHORN_URL: server.url } })
    const lines = stripVTControlCharacters(stdout).trimEnd().split('\n')
    // The columns that were left out are named below the table.
    const table = lines.filter((line) => !line.startsWith('not shown'))
    assert.deepEqual([code, table.length], [0, 2], stdout)
    for (const line of lines) assert.ok(widthOf(line) <= 80, line)
  }
})
