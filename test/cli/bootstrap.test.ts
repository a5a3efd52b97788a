import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { folderFor } from './server.ts'

const root = path.join(import.meta.dirname, '../..')
const nobody = 65_534
/** Root may write everywhere, so that somebody else has to try. */
const somebody = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {}
const mayRun = spawnSync(process.execPath, ['--version'], { ...somebody, cwd: '/' }).status === 0

/** What the bootstrap needs of a checkout, with nothing installed. */
function checkoutFor(t: TestContext): string {
  const checkout = folderFor(t)
  for (const folder of ['scripts', 'examples', 'src/cli']) mkdirSync(path.join(checkout, folder), { recursive: true })
  for (const file of ['scripts/bootstrap.mjs', 'scripts/examples.mjs', 'package.json', 'package-lock.json']) {
    copyFileSync(path.join(root, file), path.join(checkout, file))
  }
  return checkout
}

test('another fitting Node does not install everything anew', (t) => {
  const checkout = checkoutFor(t)
  const [npm, installs] = [path.join(checkout, 'npm-cli.cjs'), path.join(checkout, 'installs')]
  const installing = `require('fs').mkdirSync('node_modules', { recursive: true }); require('fs').appendFileSync('installs', 'one ')`
  writeFileSync(npm, installing)
  writeFileSync(path.join(checkout, 'src/cli/main.ts'), 'console.log("ran")')
  writeFileSync(installs, '')
  const runWith = (version: string) => {
    const pretend = `data:text/javascript,Object.defineProperty(process.versions,'node',{value:'${version}'})`
    const script = path.join(checkout, 'scripts/bootstrap.mjs')
    const env = { ...process.env, npm_execpath: npm }
    const { stdout, stderr } = spawnSync(process.execPath, ['--import', pretend, script, 'cli'], {
      env,
      encoding: 'utf8',
    })
    assert.equal(stdout, 'ran\n', stderr)
  }
  for (const version of ['26.10.0', '24.16.0', '26.10.0']) runWith(version)
  assert.equal(readFileSync(installs, 'utf8'), 'one ')
  writeFileSync(path.join(checkout, 'package-lock.json'), '{}')
  runWith('26.10.0')
  assert.equal(readFileSync(installs, 'utf8'), 'one one ', 'another lock file does')
})

test('who may not install what is missing is told who should, without a stack', {
  skip: process.getuid === undefined || !mayRun ? 'there is no other user who could run Node here' : false,
}, (t) => {
  const checkout = checkoutFor(t)
  chmodSync(checkout, 0o555)
  const script = path.join(checkout, 'scripts/bootstrap.mjs')
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, 'cli', '--version'], {
    ...somebody,
    cwd: '/',
    encoding: 'utf8',
  })
  chmodSync(checkout, 0o755)
  assert.deepEqual([status, stdout], [1, ''])
  assert.match(stderr, /^posthorn: What Posthorn needs is not installed in .* may not write there \(EACCES\)\..*\n$/)
  assert.ok(stderr.includes(`run this once: ${path.join(checkout, 'bin', 'posthorn')} --version`), stderr)
})

test('a Node from a registry that is not the pinned one is not run', async (t) => {
  const served: string[] = []
  const registry = createServer((request, response) => {
    served.push(request.url ?? '')
    if (request.url?.endsWith('.tgz')) {
      response.end('another Node')
      return
    }
    const name = request.url?.slice(1) ?? ''
    const dist = { tarball: `http://${request.headers.host}/${name}.tgz` }
    const versions = { '26.10.0': { name, version: '26.10.0', dist } }
    response.end(JSON.stringify({ name, 'dist-tags': { latest: '26.10.0' }, versions }))
  }).listen(0, '127.0.0.1')
  await once(registry, 'listening')
  t.after(() => registry.close())
  const checkout = folderFor(t)
  mkdirSync(path.join(checkout, 'scripts'))
  const script = path.join(checkout, 'scripts/bootstrap.mjs')
  // The Node that runs this test is made one that is too old.
  const old = readFileSync(path.join(root, 'scripts/bootstrap.mjs'), 'utf8').replace(
    'function fits(version) {',
    '$&\n  return false',
  )
  writeFileSync(script, old)
  for (const file of ['scripts/examples.mjs', 'package.json', 'package-lock.json']) {
    copyFileSync(path.join(root, file), path.join(checkout, file))
  }
  mkdirSync(path.join(checkout, 'examples'))
  const { port } = registry.address() as AddressInfo
  const npm = { npm_config_registry: `http://127.0.0.1:${port}/`, npm_config_cache: path.join(checkout, 'cache') }
  const env = { ...process.env, ...npm, npm_config_fetch_retries: '0' }
  const child = spawn(process.execPath, [script, 'cli', '--version'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const [said, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  assert.equal(code, 1, said)
  assert.match(said, /Could not install node-[\s\S]*EINTEGRITY/)
  assert.ok(
    served.some((url) => url.endsWith('.tgz')),
    served.join(' '),
  )
})
