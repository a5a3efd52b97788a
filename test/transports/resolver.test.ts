import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openAddressGuard } from '../../src/transports/http/address-guard.ts'
import { openResolver } from '../../src/transports/http/resolver.ts'
import { parseHosts, type Resolved } from '../../src/transports/http/system-dns.ts'

const guard = openAddressGuard([])
const at = (ttlS: number, ...addresses: readonly string[]): readonly Resolved[] =>
  addresses.map((address) => ({ address, ttlS }))

/** Answers in turn, and counts the questions. */
function scripted(...answers: readonly (readonly Resolved[] | Error)[]) {
  const asked: string[] = []
  let time = 0
  const resolver = openResolver(
    guard,
    async (name) => {
      const answer = answers[Math.min(asked.push(name), answers.length) - 1] ?? []
      if (answer instanceof Error) throw answer
      return answer
    },
    () => time,
  )
  return { resolver, asked, pass: (ms: number) => (time += ms) }
}

test('asks once for many that want to know at the same time', async () => {
  const { resolver, asked } = scripted(at(30, '8.8.8.8'))
  const answers = await Promise.all(Array.from({ length: 10 }, () => resolver.vet('a.test')))
  assert.deepEqual(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1)
  assert.deepEqual(answers[0], { kind: 'addresses', addresses: ['8.8.8.8'] })
  assert.deepEqual(asked, ['a.test'])
})

test('keeps an answer for its time to live, within 5 and 60 seconds', async () => {
  for (const [ttlS, keptMs] of [
    [0, 5_000],
    [20, 20_000],
    [86_400, 60_000],
  ] as const) {
    const { resolver, asked, pass } = scripted(at(ttlS, '8.8.8.8'))
    await resolver.vet('a.test')
    pass(keptMs - 1)
    await resolver.vet('a.test')
    assert.equal(asked.length, 1)
    pass(1)
    await resolver.vet('a.test')
    assert.equal(asked.length, 2)
  }
})

test('keeps a failure for two seconds', async () => {
  const { resolver, asked, pass } = scripted(Object.assign(new Error('no'), { code: 'ENOTFOUND' }), at(9, '8.8.8.8'))
  assert.equal((await resolver.vet('a.test')).kind, 'unknown')
  pass(1_999)
  assert.equal((await resolver.vet('a.test')).kind, 'unknown')
  assert.equal(asked.length, 1)
  pass(1)
  assert.equal((await resolver.vet('a.test')).kind, 'addresses')
})

test('refuses a name when any of its addresses is closed', async () => {
  for (const addresses of [['8.8.8.8', '127.0.0.1'], ['10.0.0.1', '8.8.8.8'], ['8.8.8.8', '::1'], ['fe80::1']]) {
    const { resolver } = scripted(at(30, ...addresses))
    assert.equal((await resolver.vet('mixed.test')).kind, 'refused')
  }
})

test('an answer without addresses is a name that was not found', async () => {
  const answer = await scripted([]).resolver.vet('empty.test')
  assert.ok(answer.kind === 'unknown' && 'code' in answer.error && answer.error.code === 'ENOTFOUND')
})

test('refuses metadata services by name and literals without asking anybody', async () => {
  const { resolver, asked } = scripted(at(30, '8.8.8.8'))
  for (const host of ['metadata.google.internal', 'Metadata.Google.Internal.', '127.0.0.1', '[::1]', '127.0.0.1.']) {
    assert.equal((await resolver.vet(host)).kind, 'refused', host)
  }
  assert.deepEqual(await resolver.vet('[2606:4700::1]'), { kind: 'addresses', addresses: ['2606:4700::1'] })
  assert.deepEqual(asked, [])
})

test('one name with and without the trailing dot or capitals is one question', async () => {
  const { resolver, asked } = scripted(at(30, '8.8.8.8'))
  for (const host of ['a.test', 'A.TEST', 'a.test.']) await resolver.vet(host)
  assert.deepEqual(asked, ['a.test'])
})

test('reads the hosts file as the system does', () => {
  const hosts = parseHosts(
    '# comment\n127.0.0.1 localhost Home.\r\n::1\tlocalhost # six\nrubbish name\n10.0.0.9 db db.lan',
  )
  assert.deepEqual(Object.fromEntries(hosts), {
    localhost: ['127.0.0.1', '::1'],
    home: ['127.0.0.1'],
    db: ['10.0.0.9'],
    'db.lan': ['10.0.0.9'],
  })
})
