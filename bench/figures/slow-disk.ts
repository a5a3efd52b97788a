import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { type Bench, closedLoop, type Figure, type Pairs, ratios, type Trial, trial } from '../bench.ts'
import { trialTable } from '../comparison.ts'
import { Posthorn } from '../posthorn.ts'
import { number, spread } from '../report.ts'
import type { Target } from '../rig.ts'
import { spreadOf } from '../statistics.ts'

const slowMs = 5

/** Figure 6: the same server with a disk whose every sync takes 5 ms more. */
export const slowDisk: Figure = {
  name: 'slow-disk',
  title: `end to end with fsync and fdatasync slowed by ${slowMs} ms (LD_PRELOAD, slow-fsync.c) against normal`,
  async measure(bench) {
    const library = path.join(bench.rig.tempDir(), 'slow-fsync.so')
    const problem = compile(library)
    if (problem !== null) return { tables: [], verdicts: [], notes: [`skipped: ${problem}`], data: null }
    const env = { LD_PRELOAD: library, SLOW_FSYNC_US: String(slowMs * 1000) }
    const groups: Trial[][] = []
    const rows: string[][] = []
    const proofs: string[] = []
    for (const connections of [64, 256]) {
      const slow = await startServer(bench, connections, 'fsync slowed', env)
      const normal = await startServer(bench, connections, 'normal', {})
      proofs.push(await proveSlow(bench, slow))
      const pairs = await pairsOf(bench, [slow, normal], connections)
      groups.push([...pairs.ours], [...pairs.theirs])
      const perWall = ratios(pairs, (each) => each.perWallS)
      rows.push([`${connections} connections`, spread(spreadOf(perWall)), perWall.map(number).join(' ')])
      await Promise.all([slow.stop(), normal.stop()])
    }
    const columns = ['slowed / normal, per wall s', 'median [quartiles] (min–max)', 'pairs']
    return {
      tables: [trialTable(groups), { columns, rows }],
      verdicts: [],
      notes: [`The slowed server is slow: idle events are acknowledged after ${proofs.join(' and ')} ms (p50).`],
      data: groups,
    }
  },
}

/** Answers why it could not be made. */
function compile(library: string): string | null {
  const source = path.join(import.meta.dirname, '../slow-fsync.c')
  const made = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', library, source, '-ldl'], {
    encoding: 'utf8',
    timeout: 60_000,
  })
  if (made.error !== undefined) return `there is no C compiler to make the slow disk with (${made.error.message})`
  return made.status === 0 ? null : `cc refused slow-fsync.c: ${made.stderr}`
}

async function startServer(
  bench: Bench,
  connections: number,
  title: string,
  env: Readonly<Record<string, string>>,
): Promise<Posthorn> {
  const posthorn = await Posthorn.start(bench.rig, { folder: bench.rig.tempDir(), title, env })
  await posthorn.createEndpoint({ url: bench.sink.url, types: ['bench.event'], concurrency: connections })
  return posthorn
}

/** A shim that does nothing would make a fine figure: an idle event must feel it. */
async function proveSlow(bench: Bench, slow: Target): Promise<string> {
  const loop = { kind: 'closed', thinkMs: 5, durationMsMax: null } as const
  const { ackMs } = await trial(bench, slow, { events: 50, connections: 1, loop, delivered: true })
  if (!(ackMs.p50 >= slowMs))
    throw new Error(`the slowed server acknowledges in ${number(ackMs.p50)} ms: it is not slow`)
  return number(ackMs.p50)
}

async function pairsOf(bench: Bench, targets: readonly [Target, Target], connections: number): Promise<Pairs> {
  const options = { events: bench.quick ? 5_000 : 20_000, connections, loop: closedLoop, delivered: true }
  for (const target of targets) await trial(bench, target, options)
  const pairs: { ours: Trial[]; theirs: Trial[] } = { ours: [], theirs: [] }
  for (let i = 0; i < (bench.quick ? 1 : 3); i++) {
    pairs.ours.push(await trial(bench, targets[0], options))
    pairs.theirs.push(await trial(bench, targets[1], options))
  }
  return pairs
}
