import assert from 'node:assert/strict'
import { test } from 'node:test'
import { edgeAddress } from '../../src/core/edge-address.ts'

const addresses: readonly (readonly [string, string])[] = [
  ['ws://edge.example', 'ws://edge.example/v1/relay'],
  ['http://edge.example:4800/', 'ws://edge.example:4800/v1/relay'],
  ['wss://edge.example/v1/relay', 'wss://edge.example/v1/relay'],
  ['https://edge.example/v1/relay/', 'wss://edge.example/v1/relay'],
  ['https://edge.example/below/', 'wss://edge.example/below/v1/relay'],
  ['ws://[::1]:4800', 'ws://[::1]:4800/v1/relay'],
]
for (const [given, url] of addresses) {
  test(`takes ${given} for ${url}`, () => {
    const address = edgeAddress(given)
    assert.ok(!('problem' in address))
    assert.equal(address.url, url)
  })
}

test('refuses what is no address of an edge, and what has more in it', () => {
  const more = ['ws://user:pw@edge.example', 'ws://edge.example/?a=1', 'ws://edge.example/#a']
  for (const edge of ['', 'edge.example', 'ftp://edge.example', ...more]) {
    assert.ok('problem' in edgeAddress(edge), edge)
  }
})
