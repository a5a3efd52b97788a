import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { folderFor } from './server.ts'

const root = path.join(import.meta.dirname, '../..')
const nobody = 65_534
/** Root may write everywhere, so that somebody else has to try. */
const somebody = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {}
const mayRun = spawnSync(process.execPath, ['--version'], { ...somebody, cwd: '/' }).status === 0

test('who may not install what is missing is told who should, without a stack', {
  skip: process.getuid === undefined || !mayRun ? 'there is no other user who could run Node here' : false,
}, (t) => {
  const checkout = folderFor(t)
  mkdirSync(path.join(checkout, 'scripts'))
  for (const file of ['scripts/bootstrap.mjs', 'scripts/examples.mjs', 'package.json', 'package-lock.json']) {
    copyFileSync(path.join(root, file), path.join(checkout, file))
  }
  mkdirSync(path.join(checkout, 'examples'))
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
