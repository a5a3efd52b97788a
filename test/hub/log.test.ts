import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Logger } from '../../src/log.ts'
import { closeCodes } from '../../src/transports/relay/protocol.ts'
import { HubScene, routeTo } from './hub-scene.ts'

type Line = Readonly<Record<string, unknown>> & Readonly<{ level: string; words: string }>

function logInto(lines: Line[]): Logger {
  const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal']
  const write = (level: string) => (facts: object, words: string) => lines.push({ level, words, ...facts })
  return Object.fromEntries(levels.map((level) => [level, write(level)])) as unknown as Logger
}

test('tells what each try was answered, and warns of those that failed', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target([{ status: 204 }, { status: 422, body: 'no such branch' }])
  const lines: Line[] = []
  const routes = new Map([...routeTo(target), ['closed', 'http://127.0.0.1:9/']])
  await scene.hub({ edge: edge.url, routes, log: logInto(lines) })
  const link = await edge.link()
  link.describe()
  link.deliver({ delivery: 'dlv_1' })
  await link.ack()
  link.deliver({ delivery: 'dlv_2' })
  await link.ack()
  link.describe({ endpoint: 'ep_2', route: 'closed' })
  link.deliver({ delivery: 'dlv_3', endpoint: 'ep_2' })
  await link.ack()
  const tried = lines.filter(({ words }) => words === 'hub.tried')
  assert.deepEqual(
    tried.map(({ level, deliveryId, statusCode, error }) => [level, deliveryId, statusCode, error]),
    [
      ['info', 'dlv_1', 204, undefined],
      ['warn', 'dlv_2', 422, 'HTTP 422'],
      ['warn', 'dlv_3', undefined, tried[2]?.error],
    ],
  )
  assert.match(String(tried[2]?.error), /ECONNREFUSED/)
  for (const { tookMs } of tried) assert.ok(Number.isInteger(tookMs), String(tookMs))
})

test('tells once, and as an error, that it is shut out for good', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const lines: Line[] = []
  const hub = await scene.hub({ edge: edge.url, log: logInto(lines) })
  ;(await edge.link()).ws.close(closeCodes.revoked, 'why')
  await hub.ended
  const told = lines.filter((line) => JSON.stringify(line).includes('put the new key in place'))
  assert.deepEqual(
    told.map(({ level, words, kind }) => [level, words, kind]),
    [['error', 'hub.ended', 'revoked']],
  )
})

test('an edge that drains again and again is told of once', async (t) => {
  const scene = new HubScene(t)
  const edge = await scene.edge()
  const target = await scene.target([{ status: 204 }])
  const lines: Line[] = []
  await scene.hub({ edge: edge.url, routes: routeTo(target), log: logInto(lines) })
  const link = await edge.link()
  link.describe()
  for (let i = 0; i < 50; i++) link.send({ kind: 'drain' })
  link.deliver({ delivery: 'dlv_1' })
  await link.ack()
  assert.equal(lines.filter(({ words }) => words === 'hub.edge_drains').length, 1)
})
