import assert from 'node:assert/strict'
import { test } from 'node:test'
import { proxyFor } from '../../src/core/proxy.ts'

const variables = { HTTPS_PROXY: 'http://secure.proxy:3128', HTTP_PROXY: 'plain.proxy:8080' }

test('picks the proxy by whether the address is encrypted', () => {
  assert.equal(proxyFor('wss://edge.example', variables), 'http://secure.proxy:3128')
  assert.equal(proxyFor('https://edge.example', variables), 'http://secure.proxy:3128')
  assert.equal(proxyFor('ws://edge.example', variables), 'http://plain.proxy:8080')
  assert.equal(proxyFor('http://edge.example', variables), 'http://plain.proxy:8080')
})

test('takes the name in lower case first, and ALL_PROXY last', () => {
  assert.equal(proxyFor('wss://edge.example', { ...variables, https_proxy: 'http://mine' }), 'http://mine')
  assert.equal(proxyFor('wss://edge.example', { ALL_PROXY: 'http://all' }), 'http://all')
  assert.equal(proxyFor('wss://edge.example', { HTTPS_PROXY: '', ALL_PROXY: 'http://all' }), 'http://all')
})

test('picks none where none is named, and none for what is no address', () => {
  assert.equal(proxyFor('wss://edge.example', {}), null)
  assert.equal(proxyFor('wss://edge.example', { HTTP_PROXY: 'http://plain' }), null)
  assert.equal(proxyFor('edge', variables), null)
})

const exempt: readonly (readonly [string, string, boolean])[] = [
  ['wss://edge.example', '*', true],
  ['wss://edge.example', 'edge.example', true],
  ['wss://Edge.Example.', 'other, edge.example', true],
  ['wss://edge.example', '.example', true],
  ['wss://edge.example', '*.example', true],
  ['wss://edge.example', 'example', true],
  ['wss://edge.example', 'dge.example', false],
  ['wss://edge.example', 'edge.example:443', true],
  ['wss://edge.example', 'edge.example:444', false],
  ['wss://edge.example:4800', 'edge.example:4800', true],
  ['wss://192.0.2.1', '192.0.2.1', true],
  ['wss://192.0.2.1', '0.2.1', false],
  ['wss://[2001:db8::1]', '2001:db8::1', true],
  ['wss://[2001:db8::1]:4800', '[2001:db8::1]:4800', true],
  ['wss://[2001:db8::1]', '2001:db8::2', false],
  ['wss://edge.example', '', false],
]
for (const [address, list, isExempt] of exempt) {
  test(`NO_PROXY=${list} ${isExempt ? 'exempts' : 'does not exempt'} ${address}`, () => {
    assert.equal(proxyFor(address, { ...variables, NO_PROXY: list }) === null, isExempt)
  })
}

test('picks none for this machine itself, which no proxy can reach', () => {
  for (const host of ['localhost', 'localhost.', 'hub.localhost', '127.0.0.1', '127.9.9.9', '[::1]']) {
    assert.equal(proxyFor(`ws://${host}:4800`, variables), null, host)
  }
  for (const host of ['localhost.example', '127.example', '128.0.0.1', '[::2]']) {
    assert.notEqual(proxyFor(`ws://${host}:4800`, variables), null, host)
  }
})
