import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openServed } from './served.ts'

test('upkeep is run and shown, and the metrics tell of it', async (t) => {
  const served = await openServed({ POSTHORN_UPKEEP_AFTER: '0s', POSTHORN_KEEP_EVENT: '1s' })
  t.after(() => served.stop())
  assert.equal((await served.call('GET', '/v1/upkeep')).status, 200)
  await served.call('POST', '/v1/events', { type: 'a', data: 1 })
  const { json } = await served.call('GET', '/v1/events')
  const receivedAt = Date.parse(json.items[0].receivedAt)
  // Nobody can move the clock of a whole server: ask until the event is old enough.
  let report = (await served.call('POST', '/v1/upkeep')).json
  while (report.last.events === 0 && Date.now() < receivedAt + 30_000) {
    assert.equal(report.last.skipped, null)
    report = (await served.call('POST', '/v1/upkeep')).json
  }
  assert.ok(Date.now() >= receivedAt + 1_000)
  assert.deepEqual([report.running, report.last.events], [false, 1])
  assert.deepEqual((await served.call('GET', '/v1/upkeep')).json, report)
  const { text } = await served.call('GET', '/metrics')
  assert.match(text, /^posthorn_upkeep_removed_total\{what="events"\} 1$/m)
  assert.match(text, /^posthorn_commit_calls_count [1-9]/m)
  assert.match(text, /^posthorn_accept_seconds_count 1$/m)
})

test('a run right after the start deletes nothing, and says why', async (t) => {
  const served = await openServed()
  t.after(() => served.stop())
  const { status, json } = await served.call('POST', '/v1/upkeep')
  assert.deepEqual([status, json.last.skipped], [200, 'just_started'])
})

test('upkeep and the pause of all delivery are for the one who may see everything', async (t) => {
  const adminKey = 'admin-admin-admin-admin'
  const served = await openServed({ POSTHORN_API_KEY: adminKey })
  t.after(() => served.stop())
  const as = (key: string) => ({ authorization: `Bearer ${key}` })
  const keyOf = async (body: object) => (await served.call('POST', '/v1/keys', body, as(adminKey))).json.key
  const calls = [
    ['GET', '/v1/upkeep'],
    ['POST', '/v1/upkeep'],
    ['POST', '/v1/dispatch/pause'],
    ['POST', '/v1/dispatch/resume'],
  ] as const
  const tenantAdmin = await keyOf({ role: 'admin', tenant: 'acme', name: 'acme' })
  const reader = await keyOf({ role: 'read', name: 'reader' })
  for (const [method, path] of calls) {
    assert.equal((await served.call(method, path, undefined, as(tenantAdmin))).status, 404, path)
    assert.equal((await served.call(method, path, undefined, as(reader))).status, 403, path)
    assert.equal((await served.call(method, path)).status, 401, path)
    assert.equal((await served.call(method, path, undefined, as(adminKey))).status, 200, path)
  }
})

test('pausing and resuming all delivery shows in readiness', async (t) => {
  const served = await openServed({ POSTHORN_PAUSED: 'yes' })
  t.after(() => served.stop())
  const paused = async () => (await served.call('GET', '/readyz')).json.paused
  assert.equal(await paused(), true)
  assert.deepEqual((await served.call('POST', '/v1/dispatch/resume')).json, { paused: false })
  assert.equal(await paused(), false)
  assert.deepEqual((await served.call('POST', '/v1/dispatch/pause')).json, { paused: true })
  assert.match((await served.call('GET', '/metrics')).text, /^posthorn_paused 1$/m)
})
