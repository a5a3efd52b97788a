import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'

/** A checkout that could not be made, in words for the person who asked for it. */
export class CheckoutError extends Error {}

/** A commit of a repository in a folder of its own, with what it needs to run. Removed by `close`, or when we exit. */
export class Checkout {
  readonly root: string
  readonly commit: string
  readonly #repository: string
  readonly #folder: string
  readonly #onExit = () => this.#remove()

  /** `folder` is where the checkout is made; `say` gets one line before anything that takes long. */
  constructor(repository: string, ref: string, folder: string, say: (line: string) => void) {
    this.#repository = repository
    this.commit = commitOf(repository, ref)
    this.#folder = mkdtempSync(path.join(folder, 'posthorn-against-'))
    this.root = path.join(this.#folder, 'checkout')
    process.on('exit', this.#onExit)
    try {
      git(repository, ['worktree', 'add', '--quiet', '--detach', this.root, this.commit])
      this.#addModules(say)
    } catch (error) {
      this.close()
      throw error
    }
  }

  close(): void {
    this.#remove()
    process.off('exit', this.#onExit)
  }

  /** The same lock file means the same packages. Otherwise the checkout installs its own, by its own bootstrap. */
  #addModules(say: (line: string) => void): void {
    const lockIn = (root: string) => readFileSync(path.join(root, 'package-lock.json'), 'utf8')
    if (lockIn(this.root) === lockIn(this.#repository)) {
      symlinkSync(path.join(this.#repository, 'node_modules'), path.join(this.root, 'node_modules'), 'dir')
      return
    }
    say(`installing the packages of ${this.commit.slice(0, 12)}: its lock file differs`)
    const args = [path.join(this.root, 'scripts', 'bootstrap.mjs'), '--version']
    const { status, stderr } = spawnSync(process.execPath, args, { cwd: this.root, encoding: 'utf8' })
    if (status !== 0) throw new CheckoutError(`the packages of ${this.commit} could not be installed:\n${stderr}`)
  }

  #remove(): void {
    spawnSync('git', ['worktree', 'remove', '--force', this.root], { cwd: this.#repository })
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

/** The commit that is checked out, and whether files differ from it. */
export function describeTree(repository: string): string {
  const changed = git(repository, ['status', '--porcelain']) !== ''
  return `${commitOf(repository, 'HEAD').slice(0, 12)}${changed ? ' with uncommitted changes' : ''}`
}

function commitOf(repository: string, ref: string): string {
  const args = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`]
  try {
    return git(repository, args)
  } catch (cause) {
    throw new CheckoutError(`there is no commit ${ref} in ${repository}`, { cause })
  }
}

function git(cwd: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync('git', args, { cwd, encoding: 'utf8' })
  if (error !== undefined) throw new CheckoutError(`git could not be run: ${error.message}`)
  if (status !== 0) throw new CheckoutError(`git ${args.join(' ')}: ${stderr.trim()}`)
  return stdout.trim()
}
