import { closedLoop, type Figure, interleaved, ratios } from '../bench.ts'
import { number, spread } from '../report.ts'
import { spreadOf } from '../statistics.ts'

/** The same program twice: how far the ratios of the other figures are from 1 by chance alone. */
export const noise: Figure = {
  name: 'noise',
  title: 'A/A: each baseline against itself, which is how much a ratio moves by chance on this machine',
  async measure(bench) {
    const rows: string[][] = []
    const data: Record<string, readonly number[]> = {}
    for (const name of ['forwarder', 'noop'] as const) {
      const twins = [await bench.rig.baseline(name, bench.sink.url), await bench.rig.baseline(name, bench.sink.url)]
      const [one, other] = twins
      if (one === undefined || other === undefined) continue
      const pairs = await interleaved(bench, [one, other], bench.quick ? 2 : 5, {
        events: bench.quick ? 5_000 : 20_000,
        connections: 64,
        loop: closedLoop,
        delivered: name === 'forwarder',
      })
      const perCpu = ratios(pairs, (trial) => trial.perCpuS)
      rows.push([`${name} / ${name}`, spread(spreadOf(perCpu)), perCpu.map(number).join(' ')])
      data[name] = perCpu
    }
    const columns = ['per CPU second', 'median [quartiles] (min–max)', 'pairs']
    return { tables: [{ columns, rows }], verdicts: [], notes: [], data }
  },
}
