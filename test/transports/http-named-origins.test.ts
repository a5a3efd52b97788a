import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type HttpTransportSettings, openHttpTransport } from '../../src/transports/http/http-transport.ts'
import type { Resolve } from '../../src/transports/http/system-dns.ts'
import { openScriptedEndpoint, parcelFor } from '../support/scripted-endpoint.ts'

const never = new AbortController().signal
const loopback: Resolve = async () => [{ address: '127.0.0.1', ttlS: 30 }]

function open(allowOrigins: readonly string[], more: Partial<HttpTransportSettings> = {}) {
  const transport = openHttpTransport({ userAgent: 'test', allowPrivate: [], allowOrigins, ...more })
  return Object.assign(transport, { [Symbol.asyncDispose]: () => transport.close() })
}

test('reaches the host and port that were named, although they are private', async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open([`http://127.0.0.1:${endpoint.port}`])
  const report = await transport.deliver(parcelFor(endpoint.url), never)
  assert.equal(report.kind, 'answered')
  assert.equal(await transport.refusal(endpoint.url), null)
})

test('reaches a named host wherever its name leads, however it is spelled', async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open([`http://Nas.Home:${endpoint.port}/hook`], { resolve: loopback })
  const report = await transport.deliver(parcelFor(`http://nas.home.:${endpoint.port}/hook`), never)
  assert.equal(report.kind, 'answered')
})

test('does not reach another port of a named host', async () => {
  await using named = await openScriptedEndpoint()
  await using other = await openScriptedEndpoint()
  await using transport = open([`http://127.0.0.1:${named.port}`])
  const report = await transport.deliver(parcelFor(other.url), never)
  assert.equal(report.kind, 'blocked')
  assert.notEqual(await transport.refusal(other.url), null)
  assert.equal(other.connections(), 0)
})

test('does not reach another host, by address or by name, on a named port', async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open([`http://127.0.0.1:${endpoint.port}`], { resolve: loopback })
  for (const host of ['127.0.0.2', '0.0.0.0', '[::1]', 'localhost', 'nas.home', '169.254.169.254']) {
    const report = await transport.deliver(parcelFor(`http://${host}:${endpoint.port}/`), never)
    assert.equal(report.kind, 'blocked', host)
  }
  assert.equal(endpoint.connections(), 0)
})

test('takes the port of the scheme when none was named', async () => {
  await using transport = open(['https://127.0.0.1', 'http://127.0.0.3'])
  assert.equal(await transport.refusal('https://127.0.0.1:443/'), null)
  assert.equal(await transport.refusal('http://127.0.0.3:80/'), null)
  assert.notEqual(await transport.refusal('http://127.0.0.1/'), null)
  assert.notEqual(await transport.refusal('https://127.0.0.3/'), null)
})

test('does not follow a named host to anywhere else', async () => {
  await using other = await openScriptedEndpoint()
  await using named = await openScriptedEndpoint([{ status: 307, headers: { location: other.url } }])
  await using transport = open([`http://127.0.0.1:${named.port}`, `http://127.0.0.1:${other.port}`])
  const report = await transport.deliver(parcelFor(named.url), never)
  assert.ok(report.kind === 'answered')
  assert.equal(report.statusCode, 307)
  assert.equal(other.connections(), 0)
})

test("sends the query of a source's request on, behind the URL's own, and only where the endpoint asks for it", async () => {
  await using endpoint = await openScriptedEndpoint()
  await using transport = open([`http://127.0.0.1:${endpoint.port}`])
  const request = { source: 'shop', method: 'POST', query: 'a=1&b=%20x', headers: {} }
  const path = async (url: string, forwardHeaders: boolean, query = request.query) => {
    await transport.deliver(parcelFor(url, { forwardHeaders }, { request: { ...request, query } }), never)
    return (await endpoint.next()).path
  }
  assert.equal(await path(endpoint.url, true), '/hook?a=1&b=%20x')
  assert.equal(await path(`${endpoint.url}?own=1`, true), '/hook?own=1&a=1&b=%20x')
  assert.equal(await path(endpoint.url, true, ''), '/hook')
  assert.equal(await path(endpoint.url, true, 'a=ü b\r\nx#y'), '/hook?a=%C3%BC%20b%0D%0Ax%23y')
  assert.equal(await path(endpoint.url, false), '/hook')
})
