import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { judge } from './against.ts'
import { Checkout } from './checkout.ts'
import { Posthorn } from './posthorn.ts'
import { Rig, root } from './rig.ts'
import { spreadOf } from './statistics.ts'

const around = (middle: number) => spreadOf([0.98, 0.99, 1, 1.01, 1.02].map((each) => each * middle))

test('a difference counts only when the quartiles of new/old and old/old do not touch', () => {
  assert.equal(judge(around(1.005), around(1), 'more'), 'no difference beyond noise')
  assert.equal(judge(around(1.1), around(1), 'more'), 'better')
  assert.equal(judge(around(0.9), around(1), 'more'), 'worse')
  assert.equal(judge(around(1.1), around(1), 'less'), 'worse')
  assert.equal(judge(around(0.9), around(1), 'less'), 'better')
  assert.equal(judge(spreadOf([2, 2, 2, 2]), spreadOf([1, 1, 1, 1]), 'more'), 'too few pairs to say')
})

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(path.join(realpathSync(tmpdir()), 'posthorn-test-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** A repository whose bootstrap says that it ran, with one commit and changes after it. */
function repositoryOf(
  t: TestContext,
): Readonly<{ folder: string; repository: string; git: (...args: string[]) => string }> {
  const folder = folderOf(t)
  const repository = path.join(folder, 'repository')
  mkdirSync(path.join(repository, 'scripts'), { recursive: true })
  mkdirSync(path.join(repository, 'node_modules'))
  writeFileSync(path.join(repository, '.gitignore'), 'node_modules\n')
  writeFileSync(path.join(repository, 'package-lock.json'), '{}')
  writeFileSync(
    path.join(repository, 'scripts', 'bootstrap.mjs'),
    `import fs from 'node:fs'; fs.mkdirSync('node_modules')`,
  )
  const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.com']
  const git = (...args: string[]) =>
    execFileSync('git', [...identity, ...args], { cwd: repository, encoding: 'utf8' }).trim()
  git('init', '--quiet')
  git('add', '.')
  git('commit', '--quiet', '-m', 'first')
  return { folder, repository, git }
}

test('a checkout with the same lock file shares the packages, and is gone afterwards', (t) => {
  const { folder, repository, git } = repositoryOf(t)
  const checkout = new Checkout(repository, 'HEAD', folder, () => assert.fail('nothing is to be installed'))
  assert.equal(checkout.commit, git('rev-parse', 'HEAD'))
  assert.equal(realpathSync(path.join(checkout.root, 'node_modules')), path.join(repository, 'node_modules'))
  checkout.close()
  assert.ok(existsSync(path.join(repository, 'node_modules')))
  assert.deepEqual(readdirSync(folder), ['repository'])
  assert.equal(git('worktree', 'list').split('\n').length, 1)
})

test('a checkout with another lock file installs its own packages', (t) => {
  const { folder, repository } = repositoryOf(t)
  writeFileSync(path.join(repository, 'package-lock.json'), '{"changed":true}')
  const said: string[] = []
  const checkout = new Checkout(repository, 'HEAD', folder, (line) => said.push(line))
  t.after(() => checkout.close())
  const modules = path.join(checkout.root, 'node_modules')
  assert.equal(realpathSync(modules), modules)
  assert.match(said.join(), /^installing the packages of [0-9a-f]{12}/)
})

test('a ref that is none is refused, and leaves nothing', (t) => {
  const { folder, repository } = repositoryOf(t)
  for (const ref of ['no-such-ref', '--help']) {
    assert.throws(() => new Checkout(repository, ref, folder, () => {}), { message: new RegExp(`no commit ${ref}`) })
  }
  assert.deepEqual(readdirSync(folder), ['repository'])
})

test('the server that is measured is that of the checkout', async (t) => {
  const folder = folderOf(t)
  const checkout = new Checkout(root, 'HEAD', folder, () => {})
  t.after(() => checkout.close())
  const rig = new Rig(folder)
  t.after(() => rig.close())
  const posthorn = await Posthorn.start(rig, { folder: rig.tempDir(), checkout: checkout.root })
  const command = readFileSync(`/proc/${posthorn.pid}/cmdline`, 'utf8').split('\0')
  assert.equal(command[1], path.join(checkout.root, 'src/cli/main.ts'))
})

test('Ctrl-C during a comparison removes the checkout', async (t) => {
  const folder = folderOf(t)
  const args = [path.join(root, 'bench/run.ts'), 'e2e', '--against', 'HEAD', '--quick', '--dir', folder]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  const worktrees = () => execFileSync('git', ['worktree', 'list'], { cwd: root, encoding: 'utf8' })
  for await (const line of createInterface({ input: child.stdout })) if (line.startsWith('old: HEAD')) break
  assert.ok(worktrees().includes(folder))
  child.kill('SIGINT')
  assert.deepEqual(await exited, [130, null])
  assert.deepEqual(readdirSync(folder), [])
  assert.ok(!worktrees().includes(folder))
})
