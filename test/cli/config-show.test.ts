import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { folderFor, serverFor } from './server.ts'

type Shown = readonly Readonly<{ name: string; value: string; origin: string }>[]

describe('posthorn config show', () => {
  test("says that it shows this shell's settings, and shows the server's with --server", async (t) => {
    const key = 'a-key-that-is-long-enough'
    const server = await serverFor(t, folderFor(t), ['--backlog-max', '77'], { POSTHORN_API_KEY: key })
    const env = { POSTHORN_API_KEY: key, POSTHORN_BACKLOG_MAX: '5' }
    const shownAs = (shown: Shown, name: string) => {
      const { value, origin } = shown.find((row) => row.name === name) ?? {}
      return [value, origin]
    }
    const here = await server.cli(['config', 'show', '-o', 'json'], { env })
    assert.deepEqual(shownAs(JSON.parse(here.stdout), 'backlogMax'), ['5', 'env'])
    assert.match(here.stderr, /Settings of this shell; for a running server: posthorn config show --server/)
    const there = await server.cli(['config', 'show', '--server', '-o', 'json'], { env })
    assert.equal(there.code, 0, there.stderr)
    assert.deepEqual(shownAs(JSON.parse(there.stdout), 'backlogMax'), ['77', 'flag'])
    assert.deepEqual(shownAs(JSON.parse(there.stdout), 'allowPrivate'), ['127.0.0.1/32', 'flag'])
    assert.ok(!there.stdout.includes(key) && there.stdout.includes('•••'), 'secrets are masked')
    assert.doesNotMatch(there.stderr, /started here/)
  })

  test("the server's settings are for its administrators alone", async (t) => {
    const key = 'a-key-that-is-long-enough'
    const server = await serverFor(t, folderFor(t), [], { POSTHORN_API_KEY: key })
    const admin = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const statusFor = async (body: object) => {
      const made = await fetch(`${server.url}/v1/keys`, { method: 'POST', headers: admin, body: JSON.stringify(body) })
      const { key: kept } = (await made.json()) as { key: string }
      return (await fetch(`${server.url}/v1/config`, { headers: { authorization: `Bearer ${kept}` } })).status
    }
    assert.equal(await statusFor({ role: 'read' }), 403)
    assert.equal(await statusFor({ role: 'admin', tenant: 'acme' }), 404)
    assert.equal(await statusFor({ role: 'admin' }), 200)
  })
})
