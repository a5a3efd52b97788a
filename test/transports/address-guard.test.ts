import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { openAddressGuard, parseAllowPrivate } from '../../src/transports/http/address-guard.ts'

const closed = openAddressGuard([])

/** One address of every range that the IANA registries call special, and the ways to write IPv4 inside IPv6. */
const special = [
  ...['0.0.0.0', '0.1.2.3', '10.0.0.1', '100.64.0.1', '100.127.255.255', '127.0.0.1', '127.255.255.254', '169.254.1.1'],
  ...['172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.2.1', '192.31.196.1', '192.52.193.1', '192.88.99.1'],
  ...['192.168.0.1', '192.175.48.1', '198.18.0.1', '198.19.255.255', '198.51.100.1', '203.0.113.1', '224.0.0.1'],
  ...['239.255.255.255', '240.0.0.1', '255.255.255.255', '168.63.129.16', '169.254.169.254', '100.100.100.200'],
  ...[
    '::',
    '::1',
    '::127.0.0.1',
    '::8.8.8.8',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::ffff:10.0.0.1',
    '::ffff:0:8.8.8.8',
  ],
  ...['64:ff9b::127.0.0.1', '64:ff9b::a9fe:a9fe', '64:ff9b:1::8.8.8.8', '100::1', '2001::1', '2001:2::1', '2001:3::1'],
  ...['2001:4:112::1', '2001:10::1', '2001:20::1', '2001:30::1', '2001:db8::1', '2002:808:808::1', '2002:7f00:1::'],
  ...['2620:4f:8000::1', '3fff::1', '3fff:fff::1', '5f00::1', '4000::1', '8000::1', 'fc00::1', 'fd00:ec2::254'],
  ...['fd20:ce::254', 'fe80::1', 'fe80::1%eth0', 'fec0::1', 'ff02::1', '2a00::5efe:8.8.8.8', '2a00::200:5efe:8.8.8.8'],
]
const onTheInternet = [
  ...['1.1.1.1', '8.8.8.8', '100.63.255.255', '100.128.0.1', '172.15.255.255', '172.32.0.1', '223.255.255.255'],
  ...['2606:4700:4700::1111', '2a00:1450:4001::200e', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '2003::1', '2c0f::1'],
]

for (const address of special) {
  test(`refuses ${address} and says how to allow it`, () => {
    assert.match(closed.check(address) ?? '', /; set POSTHORN_ALLOW_PRIVATE=\S+\/\d+ at the server to allow it/)
  })
}

test('names with the new address what is open already, because the setting replaces it', () => {
  const guard = openAddressGuard(['127.0.0.0/8', '::1/128'])
  assert.match(guard.check('10.0.0.1') ?? '', /set POSTHORN_ALLOW_PRIVATE=127\.0\.0\.0\/8,::1\/128,10\.0\.0\.1\/32 at/)
})

test('lets the internet through', () => {
  for (const address of onTheInternet) assert.equal(closed.check(address), null, address)
})

test('refuses what is not an IP address in its one plain form', () => {
  for (const text of ['', 'localhost', '2130706433', '0x7f.1', '0177.0.0.1', '127.1', '[::1]', '8.8.8.8 ']) {
    assert.match(closed.check(text) ?? '', /is not an IP address/)
  }
})

test('the advice in a refusal opens that address', () => {
  for (const address of special) {
    const advice = /ALLOW_PRIVATE=(\S+)/.exec(closed.check(address) ?? '')?.[1] ?? ''
    assert.equal(openAddressGuard([advice]).check(address), null, address)
  }
})

test('opens networks and single addresses, however IPv4 is written', () => {
  const guard = openAddressGuard(['127.0.0.0/8', '::1', '::ffff:10.0.0.0/104', ' 192.168.1.7 ', 'fd00::/8'])
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '10.1.2.3', '::ffff:10.1.2.3', '192.168.1.7', 'fd12::1']) {
    assert.equal(guard.check(address), null, address)
  }
  for (const address of ['192.168.1.8', '0.0.0.0', '172.16.0.1', 'fe80::1', '::2']) {
    assert.notEqual(guard.check(address), null, address)
  }
})

test('opens link-local, metadata and tunnel addresses one by one, never by a network', () => {
  const precious = ['169.254.1.1', '169.254.169.254', '100.100.100.200', '168.63.129.16', 'fd00:ec2::254', 'fe80::1']
  const tunnels = ['2002:a9fe:a9fe::', '::a9fe:a9fe', '2a00::5efe:a9fe:a9fe', '64:ff9b:1::a9fe:a9fe']
  const wide = openAddressGuard(['0.0.0.0/0', '::/0', '169.254.0.0/16', '169.254.169.254/31', 'fd00:ec2::/64'])
  for (const address of [...precious, ...tunnels]) {
    assert.notEqual(wide.check(address), null, address)
    assert.equal(openAddressGuard([address]).check(address), null, address)
  }
  assert.notEqual(wide.check('::ffff:169.254.169.254'), null)
  assert.notEqual(wide.check('64:ff9b::169.254.169.254'), null)
})

test('names the entry that is no network, without throwing', () => {
  for (const entry of [
    '',
    'x',
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10/8',
    'fe80::1%eth0',
    '::ffff:1.2.3.4/95',
  ]) {
    const parsed = parseAllowPrivate(['10.0.0.0/8', entry])
    assert.ok('problem' in parsed && parsed.problem.includes(JSON.stringify(entry)), entry)
    assert.throws(() => openAddressGuard([entry]))
  }
})

test('judges a mapped and a NAT64 address as the IPv4 address inside', () => {
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      const isOpen = closed.check(address) === null
      assert.equal(closed.check(`::ffff:${address}`) === null, isOpen)
      assert.equal(closed.check(`64:ff9b::${address}`) === null, isOpen)
      assert.notEqual(closed.check(`2a00:1::5efe:${address}`), null)
    }),
  )
})

test('a network in IPv6 clothes does not silently open every IPv4 address', () => {
  for (const entry of ['::ffff:0:0/96', '::ffff:0.0.0.0/96', '64:ff9b::/96']) {
    const parsed = parseAllowPrivate([entry])
    assert.match('problem' in parsed ? parsed.problem : '', /means every IPv4 address; write 0\.0\.0\.0\/0/)
  }
  assert.notEqual(openAddressGuard(['::/0']).check('10.0.0.1'), null, 'all of IPv6 is not IPv4')
  assert.notEqual(openAddressGuard(['2002::/16']).check('2002:a00:1::'), null, 'a network opens no tunnel')
  assert.equal(openAddressGuard(['0.0.0.0/0']).check('10.0.0.1'), null)
})
