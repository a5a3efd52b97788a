import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmdirSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Why there can be none, for `skip`; null when there can. */
export function noSmallDisk(): string | null {
  return process.getuid?.() === 0 ? null : 'only root can mount a small disk'
}

/** A small file system of its own in memory. It must not be in use any more when it is disposed of. */
export class SmallDisk implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'posthorn-disk-'))

  constructor(sizeKib: number) {
    run('mount', '-t', 'tmpfs', '-o', `size=${sizeKib}k`, 'posthorn-test', this.path)
  }

  /** Takes all that is left; answers how to give it back. */
  fill(): () => void {
    const ballast = join(this.path, 'ballast')
    const handle = openSync(ballast, 'a')
    try {
      for (;;) writeSync(handle, new Uint8Array(4_096))
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
    }
    closeSync(handle)
    return () => unlinkSync(ballast)
  }

  [Symbol.dispose](): void {
    run('umount', this.path)
    rmdirSync(this.path)
  }
}

function run(command: string, ...args: string[]): void {
  const { status, stderr } = spawnSync(command, args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr}`)
}
