import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { eventually } from '../support/eventually.ts'
import { call, openMembers } from '../support/members.ts'
import { noPostgres, query } from '../support/postgres.ts'
import { openScriptedEndpoint } from '../support/scripted-endpoint.ts'

describe('a lane without a head', { skip: noPostgres() ?? false }, () => {
  it('is a notification as soon as upkeep finds it', async () => {
    await using members = await openMembers()
    await using operators = await openScriptedEndpoint()
    await using sink = await openScriptedEndpoint(() => ({ status: 503 }))
    const server = await members.start()
    await call(server, 'POST', '/v1/endpoints', { url: operators.url, types: ['posthorn.*'] })
    await call(server, 'POST', '/v1/endpoints', { url: sink.url, types: ['a.b'], ordering: 'endpoint' })
    await call(server, 'POST', '/v1/events', { type: 'a.b', data: 1 })
    await sink.next()
    await eventually('it was made headless', async () => {
      const rows = await query(
        members.url,
        'UPDATE live SET due_at = NULL WHERE owner IS NULL AND lane IS NOT NULL RETURNING 1 AS one',
      )
      return rows.length === 1 ? true : null
    })
    await call(server, 'POST', '/v1/upkeep')
    const { body } = await operators.next()
    const { type, data } = JSON.parse(body.toString()) as { type: string; data: object }
    assert.deepEqual({ type, data }, { type: 'posthorn.lanes.without_head', data: { count: 1 } })
  })
})
