import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { fullRelayName, lacksRoute, linkLost, relayNameProblem, routeTargetProblem } from '../../src/core/relay.ts'

test('a name is lower-case letters and digits, with . _ - between them, up to 64 characters', () => {
  const good = ['a', '0', 'home', 'home-2', 'rack.7_b', 'a--b', '1.2.3', 'a'.repeat(64)]
  for (const name of good) assert.equal(relayNameProblem(name), null, name)
  const bad = [
    ...['', 'a'.repeat(65), '-home', 'home-', '.home', 'home.', '_', '-', '..', 'Home', 'häuschen', 'ｈome'],
    ...['ho me', ' home', 'home ', 'home\n', '\nhome', 'a/b', '../a', 'a\0', 'a=b', 'a,b', 'a%20', '🏠'],
  ]
  for (const name of bad) assert.match(relayNameProblem(name) ?? '', /^must have 1 to 64 characters: /, name)
})

const inside = [...'abcdefghijklmnopqrstuvwxyz0123456789._-']

test('a good name goes through a URL, a header and a file name as it is', () => {
  const names = fc
    .array(fc.constantFrom(...inside), { minLength: 1, maxLength: 64 })
    .map((letters) => letters.join(''))
    .filter((name) => relayNameProblem(name) === null)
  fc.assert(
    fc.property(names, (name) => {
      assert.equal(encodeURIComponent(name), name)
      assert.equal(new URL(`http://edge/${name}/x`).pathname, `/${name}/x`)
      assert.equal(new Headers({ 'x-name': name }).get('x-name'), name)
    }),
  )
})

test('a character that is not allowed is refused wherever it stands', () => {
  const name = fc.stringMatching(/^[a-z0-9]{1,30}$/)
  const other = fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }).filter((letter) => !inside.includes(letter))
  fc.assert(
    fc.property(name, other, name, (before, letter, after) => {
      for (const spoilt of [before + letter + after, letter + after, before + letter]) {
        assert.notEqual(relayNameProblem(spoilt), null)
      }
    }),
  )
})

test('the code of a lost link can stand at the beginning of an error', () => {
  assert.match(linkLost, /^[A-Z_]+$/)
})

test('a route leads to a web address without a password, and the password is not repeated', () => {
  for (const address of ['http://127.0.0.1:8123/hook', 'HTTPS://host.example/?a=1', 'http://[::1]/']) {
    assert.equal(routeTargetProblem(address), null, address)
  }
  for (const address of ['', 'localhost:3000', 'ftp://x', '/hook']) {
    assert.match(routeTargetProblem(address) ?? '', /http:\/\/ or https:\/\//, address)
  }
  for (const address of ['http://me:hunter2@x/', 'http://me@x/', 'http://:hunter2@x/']) {
    assert.match(routeTargetProblem(address) ?? '', /^(?!.*hunter2).*user name or password/, address)
  }
})

test('relays of one name in two tenants are told apart, whatever the tenants are called', () => {
  const name = fc.stringMatching(/^[a-z0-9]{1,5}$/)
  const pair = fc.tuple(fc.string({ maxLength: 5 }), name)
  fc.assert(
    fc.property(pair, pair, ([tenant, one], [other, two]) => {
      assert.equal(fullRelayName(tenant, one) === fullRelayName(other, two), tenant === other && one === two)
    }),
  )
})

test('a hub lacks a route only while it is there', () => {
  const facts = { connectedAt: 1, software: 'posthorn/1.2.0', protocol: 1, roundTripMs: null, lastAckAt: null }
  const link = { ...facts, routes: ['github'], outstanding: 0 }
  assert.equal(lacksRoute(link, 'shop'), true)
  assert.equal(lacksRoute(link, 'github'), false)
  assert.equal(lacksRoute(null, 'shop'), false)
})
