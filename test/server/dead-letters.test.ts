import assert from 'node:assert/strict'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { openScriptedEndpoint, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'
import { type Json, openServed, openServedParts, type Served } from './served.ts'

let served: Served
let sink: ScriptedEndpoint
let isUp = false
let topics = 0

before(async () => {
  served = await openServed()
  sink = await openScriptedEndpoint(() => ({ status: isUp ? 200 : 422 }))
})
after(async () => {
  await served.stop()
  await sink.close()
})

const get = async (path: string): Promise<Json> => (await served.call('GET', path)).json
const post = (path: string, body?: unknown) => served.call('POST', path, body)

/** An endpoint of its own, with dead letters. */
async function withDeadLetters(count: number): Promise<{ endpoint: string; type: string }> {
  topics += 1
  isUp = false
  const type = `dead${topics}.one`
  const { id: endpoint } = (await post('/v1/endpoints', { url: sink.url, types: [type], breaker: false })).json
  for (let n = 0; n < count; n++) await post('/v1/events', { type, data: n })
  await until(`/v1/dead-letters?type=${type}`, ({ items }) => items.length === count)
  isUp = true
  return { endpoint, type }
}

async function until(path: string, isThere: (answer: Json) => boolean): Promise<Json> {
  for (;;) {
    const answer = await get(path)
    if (isThere(answer)) return answer
  }
}

const ended = (id: string) => until(`/v1/replays/${id}`, ({ settledAt }) => settledAt !== null)

describe('dead letters', () => {
  test('are listed with the filters of deliveries, and nothing else is', async () => {
    const { endpoint, type } = await withDeadLetters(2)
    const { items } = await get(`/v1/dead-letters?endpoint=${endpoint}&reason=permanent_status&error=422`)
    assert.deepEqual(
      items.map((item: Json) => [item.type, item.status]),
      Array(2).fill([type, 'failed']),
    )
    assert.deepEqual((await get(`/v1/dead-letters?type=${type}&status=dead_letter`)).items, [])
    assert.deepEqual((await get(`/v1/dead-letters?event=${items[0].eventId}`)).items, [items[0]])
    const { groups } = await get(`/v1/dead-letters?event=${items[0].eventId}&group=error`)
    assert.equal(groups[0].count, 1)
    assert.deepEqual((await get(`/v1/dead-letters?type=${type}&tenant=acme`)).items, [])
  })

  test('are grouped by their error', async () => {
    const { type } = await withDeadLetters(3)
    const { groups } = await get(`/v1/dead-letters?type=${type}&group=error`)
    assert.equal(groups.length, 1)
    const { error, count, endpoints, reasons, first, last, sample } = groups[0]
    assert.deepEqual([count, endpoints, reasons], [3, 1, ['permanent_status']])
    assert.match(error, /^HTTP/)
    assert.ok(first <= last)
    assert.match(sample, /^dlv_/)
  })

  test('are grouped by endpoint, type and reason, with what an endpoint is known by', async () => {
    const { type, endpoint } = await withDeadLetters(2)
    const groups = async (by: string) => (await get(`/v1/dead-letters?type=${type}&group=${by}`)).groups
    const [byEndpoint] = await groups('endpoint')
    assert.deepEqual([byEndpoint.endpoint, byEndpoint.name, byEndpoint.count], [endpoint, new URL(sink.url).host, 2])
    await served.call('PATCH', `/v1/endpoints/${endpoint}`, { description: 'the shop' })
    assert.equal((await groups('endpoint'))[0].name, 'the shop')
    await served.call('DELETE', `/v1/endpoints/${endpoint}`)
    assert.equal((await groups('endpoint'))[0].name, null)
    const [byType] = await groups('type')
    assert.deepEqual([byType.type, byType.count, byType.endpoints], [type, 2, 1])
    const [byReason] = await groups('reason')
    assert.deepEqual([byReason.reason, byReason.count], ['permanent_status', 2])
  })

  test('are brought back and discarded by key, pattern and class of the last status', async () => {
    const { type } = await withDeadLetters(2)
    isUp = false
    const { id } = (await post('/v1/events', { type, data: 1, key: type })).json
    await until(`/v1/dead-letters?event=${id}`, ({ items }) => items.length === 1)
    isUp = true
    const matched = async (filter: object) => (await post('/v1/replays', { filter, dryRun: true })).json.matched
    assert.equal(await matched({ key: type }), 1)
    assert.equal(await matched({ type: `${type.split('.')[0]}.*`, statusClass: '4xx' }), 3)
    assert.equal(await matched({ type, statusClass: ['3xx', '5xx'] }), 0)
    const { json } = await post('/v1/replays', { filter: { key: type, statusClass: '4xx' } })
    assert.deepEqual(json.filter, { key: type, statusClass: ['4xx'] })
    assert.equal((await ended(json.id)).requeued, 1)
    assert.deepEqual((await post('/v1/dead-letters/discard', { filter: { type, key: 'none' } })).json, { discarded: 0 })
    assert.deepEqual((await post('/v1/dead-letters/discard', { filter: { type, event: id } })).json, { discarded: 0 })
    assert.equal((await get(`/v1/dead-letters?type=${type}`)).items.length, 2)
  })

  test('are not searched for by nonsense: every wrong parameter is named', async () => {
    const reply = await served.call('GET', '/v1/dead-letters?status=pending&group=colour&resaon=x&limit=0')
    const paths = reply.json.errors.map((error: Json) => error.path).sort()
    assert.deepEqual([reply.status, paths], [422, ['group', 'limit', 'resaon', 'status']])
  })
})

describe('discarding', () => {
  test('says with a dry run what it would delete, then deletes it and says how many', async () => {
    const { endpoint } = await withDeadLetters(3)
    const dry = await post('/v1/dead-letters/discard', { filter: { endpoint }, dryRun: true })
    assert.deepEqual([dry.status, dry.json.matched, dry.json.sample.length], [200, 3, 3])
    assert.equal((await get(`/v1/dead-letters?endpoint=${endpoint}`)).items.length, 3)
    const done = await post('/v1/dead-letters/discard', { filter: { endpoint } })
    assert.deepEqual([done.status, done.json], [200, { discarded: 3 }])
    assert.deepEqual((await get(`/v1/deliveries?endpoint=${endpoint}`)).items, [])
  })

  test('never touches what is not dead', async () => {
    isUp = true
    topics += 1
    const type = `alive${topics}.one`
    await post('/v1/endpoints', { url: sink.url, types: [type] })
    const { id } = (await post('/v1/events', { type, data: 1 })).json
    await until(`/v1/events/${id}`, ({ deliveries }) => deliveries[0].status === 'delivered')
    assert.deepEqual((await post('/v1/dead-letters/discard', { filter: { type } })).json, { discarded: 0 })
    assert.equal((await get(`/v1/deliveries?type=${type}`)).items.length, 1)
  })

  test('of everything has to be said in so many words', async () => {
    await withDeadLetters(1)
    for (const body of [{}, { filter: {} }, { filter: {}, dryRun: true }, { all: false }]) {
      assert.equal((await post('/v1/dead-letters/discard', body)).status, 422, JSON.stringify(body))
    }
    assert.equal((await post('/v1/dead-letters/discard', { all: true, filter: { reason: 'gone' } })).status, 422)
    const { items } = await get('/v1/dead-letters')
    assert.ok(items.length >= 1)
    const dry = await post('/v1/dead-letters/discard', { all: true, dryRun: true })
    assert.ok(dry.json.matched >= items.length)
    assert.equal((await post('/v1/dead-letters/discard', { all: true })).json.discarded, dry.json.matched)
    assert.deepEqual((await get('/v1/dead-letters')).items, [])
  })

  test('is written down: who, what and how many', async () => {
    const audited = await openServedParts(() => ({}))
    try {
      await audited.call('POST', '/v1/dead-letters/discard', { filter: { reason: 'gone', from: '2026-01-01' } })
      const line = audited.logged.find(({ message }) => message === 'dead_letters.discarded')
      const { by, discarded, filter } = line?.fields ?? {}
      assert.deepEqual([by, discarded, filter.reason, filter.from], ['local', 0, 'gone', '2026-01-01T00:00:00.000Z'])
    } finally {
      await audited.stop()
    }
  })
})

describe('a replay', () => {
  test('says with a dry run what it would bring back, and makes no job', async () => {
    const { endpoint } = await withDeadLetters(3)
    const before = (await get('/v1/replays')).items.length
    const reply = await post('/v1/replays', { filter: { endpoint }, dryRun: true })
    assert.deepEqual([reply.status, reply.json.matched, reply.json.sample.length], [200, 3, 3])
    assert.equal(reply.json.sample[0].endpointId, endpoint)
    assert.equal((await get('/v1/replays')).items.length, before)
  })

  test('brings them back, and tells who asked for what and how far it is', async () => {
    const { endpoint, type } = await withDeadLetters(3)
    const reply = await post('/v1/replays', { filter: { endpoint, status: 'failed', error: '422' }, note: 'fixed' })
    assert.equal(reply.status, 202)
    const { id, filter, by, note, rate, recover, matched } = reply.json
    assert.deepEqual(
      [filter, by, note, rate, recover, matched],
      [{ endpoint, status: ['failed'], error: '422' }, 'local', 'fixed', null, null, 3],
    )
    const after = await ended(id)
    const { status, requeued, delivered, failedAgain, waiting, skipped } = after
    assert.deepEqual([status, requeued, delivered, failedAgain, waiting, skipped], ['settled', 3, 3, 0, 0, 0])
    assert.ok(after.endedAt >= after.createdAt)
    await until(`/v1/deliveries?type=${type}&status=delivered`, ({ items }) => items.length === 3)
    assert.equal((await get('/v1/replays?status=settled')).items[0].id, id)
    assert.deepEqual((await get('/v1/replays?status=running')).items, [])
  })

  test('whose deliveries fail again says so, lists them, and is seen to settle on the stream', async () => {
    const { endpoint, type } = await withDeadLetters(2)
    isUp = false
    const stream = await fetch(`${served.url}/v1/stream?kinds=replay.changed`)
    const { id } = (await post('/v1/replays', { filter: { endpoint } })).json
    const told: Json[] = []
    const input = Readable.fromWeb(stream.body as never)
    const lines = createInterface({ input })
    for await (const line of lines) {
      if (!line.startsWith('data: ')) continue
      const notice = JSON.parse(line.slice('data: '.length))
      if (notice.replayId !== id) continue
      told.push(notice)
      if (notice.status === 'settled') break
    }
    input.destroy()
    const { status, requeued, delivered, failedAgain, waiting } = told.at(-1) as Json
    assert.deepEqual([status, requeued, delivered, failedAgain, waiting], ['settled', 2, 0, 2, 0])
    assert.equal((await get(`/v1/replays/${id}`)).failedAgain, 2)
    const { items } = await get(`/v1/dead-letters?replay=${id}`)
    assert.deepEqual(
      items.map((item: Json) => item.type),
      [type, type],
    )
  })

  test('says with a dry run which of its endpoints take nothing now, and no others', async () => {
    const [a, b] = [await withDeadLetters(1), await withDeadLetters(1)]
    await post(`/v1/endpoints/${a.endpoint}/pause`)
    const blocked = async (filter: object) =>
      (await post('/v1/replays', { filter, dryRun: true })).json.blocked as unknown
    assert.deepEqual(await blocked({ type: a.type }), [{ endpointId: a.endpoint, why: 'paused' }])
    assert.deepEqual(await blocked({ type: b.type }), [])
    await post(`/v1/endpoints/${a.endpoint}/resume`)
    assert.deepEqual(await blocked({ type: a.type }), [])
  })

  test('says with a dry run how many cancelled ones it leaves out', async () => {
    const { endpoint, type } = await withDeadLetters(1)
    await post(`/v1/endpoints/${endpoint}/pause`)
    for (const n of [1, 2]) await post('/v1/events', { type, data: n })
    await post('/v1/deliveries/cancel', { filter: { type } })
    const dry = async (path: string, body: object) => {
      const { matched, leftOut } = (await post(path, { ...body, dryRun: true })).json
      return [matched, leftOut.cancelled, leftOut.endpoint_deleted]
    }
    assert.deepEqual(await dry('/v1/replays', { filter: { type } }), [1, 2, 0])
    assert.deepEqual(await dry('/v1/replays', { filter: { type, reason: 'cancelled' } }), [2, 0, 0])
    const recover = `/v1/endpoints/${endpoint}/recover`
    const since = new Date(Date.now() - 3_600_000).toISOString()
    assert.deepEqual(await dry(recover, { since }), [1, 2, 0])
    assert.deepEqual(await dry(recover, { since, only: 'missing' }), [0, 0, 0])
    const until = new Date(Date.parse(since) + 1).toISOString()
    assert.deepEqual(await dry(recover, { since, until }), [0, 0, 0])
    const { sample } = (await post(recover, { since, until, dryRun: true })).json
    assert.deepEqual(sample, [], 'what was received after `until` is not in the sample')
    await post(`/v1/endpoints/${endpoint}/resume`)
  })

  test('by ids brings back just those', async () => {
    const { type } = await withDeadLetters(3)
    const [one, , three] = (await get(`/v1/dead-letters?type=${type}`)).items
    const { id, matched } = (await post('/v1/replays', { filter: { ids: [one.id, three.id] } })).json
    assert.equal(matched, 2)
    await ended(id)
    await until(`/v1/deliveries?type=${type}&status=delivered`, ({ items }) => items.length === 2)
    assert.equal((await get(`/v1/dead-letters?type=${type}`)).items.length, 1)
  })

  test('is paused, resumed and cancelled; a verb that makes no sense now is 409', async () => {
    const { endpoint } = await withDeadLetters(5)
    const { id } = (await post('/v1/replays', { filter: { endpoint }, rate: 0.01 })).json
    const verb = async (word: string) => {
      const { status, json } = await post(`/v1/replays/${id}/${word}`)
      return [status, json.status]
    }
    assert.deepEqual(await verb('pause'), [200, 'paused'])
    assert.deepEqual(await verb('pause'), [409, 409])
    assert.deepEqual(await verb('resume'), [200, 'running'])
    assert.deepEqual(await verb('cancel'), [200, 'cancelled'])
    assert.deepEqual(await verb('resume'), [409, 409])
    const { requeued, endedAt } = await get(`/v1/replays/${id}`)
    assert.ok(requeued <= 2)
    assert.notEqual(endedAt, null)
  })

  test('with a wrong body is refused with every wrong field, and one that does not exist is 404', async () => {
    const ids = Array.from({ length: 1_001 }, () => 'dlv_00000000000000000000000')
    const filter = { endpiont: 'x', status: 'pending', reason: 'because', from: 'yesterday', ids, error: '' }
    const reply = await post('/v1/replays', { filter, rate: 0, note: 5, dryRun: 'yes', by: 'me' })
    const paths = reply.json.errors.map((error: Json) => error.path).sort()
    const wrong = ['endpiont', 'error', 'from', 'ids', 'reason', 'status'].map((name) => `filter.${name}`)
    assert.deepEqual([reply.status, paths], [422, ['by', 'dryRun', ...wrong, 'note', 'rate']])
    assert.equal((await post('/v1/replays', {})).status, 422)
    for (const id of ['rpl_00000000000000000000000', 'nonsense']) {
      assert.equal((await served.call('GET', `/v1/replays/${id}`)).status, 404)
      assert.equal((await post(`/v1/replays/${id}/pause`)).status, 404)
    }
  })
})

describe('recovering an endpoint', () => {
  test('brings back what it failed to take since an instant', async () => {
    const { endpoint } = await withDeadLetters(2)
    const body = { since: '2026-01-01', note: 'was down' }
    const dry = await post(`/v1/endpoints/${endpoint}/recover`, { ...body, dryRun: true })
    assert.deepEqual([dry.status, dry.json.matched], [200, 2])
    const { status, json } = await post(`/v1/endpoints/${endpoint}/recover`, body)
    assert.deepEqual([status, json.recover.only, json.filter], [202, 'failed', null])
    assert.equal((await ended(json.id)).requeued, 2)
  })

  test('backfills a new endpoint with what it never got', async () => {
    const { type } = await withDeadLetters(2)
    const { id } = (await post('/v1/endpoints', { url: sink.url, types: [type] })).json
    const body = { since: new Date(Date.now() - 3_600_000).toISOString(), only: 'missing' }
    assert.equal((await post(`/v1/endpoints/${id}/recover`, { ...body, dryRun: true })).json.matched, 2)
    await ended((await post(`/v1/endpoints/${id}/recover`, body)).json.id)
    await until(`/v1/deliveries?endpoint=${id}&status=delivered`, ({ items }) => items.length === 2)
  })

  test('needs an instant, a known word and an endpoint', async () => {
    const { endpoint } = await withDeadLetters(0)
    const wrong = await post(`/v1/endpoints/${endpoint}/recover`, { since: '2h', only: 'some' })
    assert.deepEqual([wrong.status, wrong.json.errors.length], [422, 2])
    assert.equal((await post('/v1/endpoints/ep_none/recover', { since: '2026-01-01' })).status, 404)
  })
})
