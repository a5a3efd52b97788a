import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHmac, randomBytes } from 'node:crypto'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { start } from '../cli/command.ts'
import { folderFor, serverFor, sinkFor } from '../cli/server.ts'
import { freePort } from '../support/server-process.ts'

const root = path.join(import.meta.dirname, '../..')
const page = readFileSync(path.join(root, 'docs/relay.md'), 'utf8')
const hasTools = ['bash', 'openssl'].every((tool) => spawnSync(tool, ['version']).error === undefined)

test('docs/relay.md leads from nothing to a webhook of GitHub at home', {
  skip: hasTools ? false : 'bash or openssl is not installed',
}, async (t) => {
  const folder = folderFor(t)
  const apiKey = randomBytes(32).toString('hex')
  const publicPort = String(await freePort())
  const server = await serverFor(t, folder, ['--public-host', '127.0.0.1', '--public-port', publicPort], {
    POSTHORN_API_KEY: apiKey,
  })

  const settings = path.join(folder, 'edge.env')
  writeFileSync(settings, `POSTHORN_API_KEY=${apiKey}\n`)
  const commands = blockWith('posthorn sources create').replace('/etc/posthorn/edge.env', settings)
  const printed = runIn(folder, commands, { POSTHORN_URL: server.url })
  const key = /phr_[\w-]{43}/.exec(printed)?.[0] ?? ''
  assert.notEqual(key, '', printed)

  const home = await sinkFor(t)
  const json = /hub\.json <<'EOF'\n([\s\S]*?)^EOF$/m.exec(page)?.[1] ?? ''
  const hubFile = json
    .replace('wss://edge.example', `ws://127.0.0.1:${publicPort}`)
    .replace('http://127.0.0.1:8123', home.url.replace(/\/$/, ''))
  writeFileSync(path.join(folder, 'hub.json'), hubFile)
  writeFileSync(path.join(folder, 'relay-key'), `${key}\n`)
  const hub = start(['relay', '--config', 'hub.json', '--key-file', 'relay-key'], { cwd: folder })
  t.after(() => hub.stop('SIGKILL'))
  await hub.line(/^connected to ws:\/\/127\.0\.0\.1:\d+ as home/)

  const body = '{ "zen": "Keep it logically awesome." }'
  const secret = readFileSync(path.join(folder, 'webhook-secret.txt'), 'utf8').trim()
  const signature = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
  const arrived = home.next()
  const github = { 'x-github-event': 'ping', 'x-github-delivery': '1', 'x-hub-signature-256': signature }
  const answer = await fetch(`http://127.0.0.1:${publicPort}/in/github`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...github },
    body,
  })
  assert.equal(answer.status, 202)
  const request = await arrived
  assert.deepEqual([request.path, request.body.toString('utf8')], ['/hook', body], 'byte for byte')
  assert.equal(request.headers['x-hub-signature-256'], signature)
  assert.match(String(request.headers['webhook-signature']), /^v1,/)
  assert.equal((await hub.stop()).code, 0)

  for (const hidden of ['/v1/relays', '/v1/events', '/healthz']) {
    assert.equal((await fetch(`http://127.0.0.1:${publicPort}${hidden}`)).status, 404, hidden)
  }
})

function blockWith(text: string): string {
  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? '')
  return blocks.find((block) => block.includes(text)) ?? assert.fail(`no block has ${text}`)
}

/** As a reader would: with `posthorn` on the path. */
function runIn(folder: string, commands: string, env: Readonly<Record<string, string>>): string {
  const command = path.join(folder, 'posthorn')
  writeFileSync(command, `#!/bin/sh\nexec '${process.execPath}' '${path.join(root, 'src/cli/main.ts')}' "$@"\n`)
  chmodSync(command, 0o755)
  const { status, stdout, stderr } = spawnSync('bash', ['-ec', commands], {
    cwd: folder,
    env: { ...process.env, ...env, PATH: `${folder}${path.delimiter}${process.env.PATH}` },
    encoding: 'utf8',
  })
  assert.equal(status, 0, `${commands}\n${stdout}\n${stderr}`)
  return stdout
}
