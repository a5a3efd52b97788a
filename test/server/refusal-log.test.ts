import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Logger } from '../../src/log.ts'
import { RefusalLog } from '../../src/server/refusal-log.ts'
import { aSource } from '../intake/providers/scene.ts'

test('a flood of refusals is told in one line per source and ten seconds, with the number of the untold', () => {
  let now = 1_000_000
  const lines: unknown[] = []
  const log = { warn: ({ source, code, untold }: Record<string, unknown>) => lines.push([source, code, untold]) }
  const refusals = new RefusalLog(log as unknown as Logger, () => now)
  const [one, other] = [aSource('github'), aSource('github', { id: 'src_2', name: 'other' })]
  for (let i = 0; i < 100; i++) refusals.note(one, 'signature_wrong')
  refusals.note(other, 'signature_missing')
  now += 9_999
  refusals.note(one, 'signature_wrong')
  now += 1
  refusals.note(one, 'malformed')
  // A clock that was set back must not silence the log.
  now -= 3_600_000
  refusals.note(one, 'malformed')
  assert.deepEqual(lines, [
    ['main', 'signature_wrong', 0],
    ['other', 'signature_missing', 0],
    ['main', 'malformed', 100],
    ['main', 'malformed', 0],
  ])
})
