import { spawnSync } from 'node:child_process'
import type { TestContext } from 'node:test'
import { toolOf } from './debian.ts'

/**
 * A command that becomes a process whose wall clock is off by so much, as that of a machine that was set wrongly. Null: the
 * test is skipped, because libfaketime is missing.
 */
export function clockShift(t: TestContext, shift: `${'+' | '-'}${number}${'m' | 'h' | 'd'}`): readonly string[] | null {
  const program = toolOf(t, 'faketime', 'faketime')
  if (program === null) return null
  // The program itself stays in between, and does not pass on signals: its library alone is used.
  const { stdout, status, stderr } = spawnSync(program, ['-f', shift, 'printenv', 'LD_PRELOAD'], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`faketime: ${stderr}`)
  return ['env', `LD_PRELOAD=${stdout.trim()}`, `FAKETIME=${shift}`, 'DONT_FAKE_MONOTONIC=1']
}
