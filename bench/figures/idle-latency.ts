import { type Bench, type Figure, type Trial, trial } from '../bench.ts'
import { Posthorn } from '../posthorn.ts'
import { latency, number } from '../report.ts'
import type { Target } from '../rig.ts'
import { median } from '../statistics.ts'

/** Figure 7: what a single event waits for when nothing else is going on. */
export const idleLatency: Figure = {
  name: 'idle-latency',
  title: 'latency of a single event, idle, one at a time',
  async measure(bench) {
    const posthorn = await Posthorn.start(bench.rig, { folder: bench.rig.tempDir() })
    await posthorn.createEndpoint({ url: bench.sink.url, types: ['bench.event'], concurrency: 64 })
    const forwarder = await bench.rig.baseline('forwarder', bench.sink.url)
    const rounds = bench.quick ? 2 : 5
    const targets = [posthorn, forwarder]
    for (const target of targets) await oneAtATime(bench, target)
    const trials = new Map<Target, Trial[]>(targets.map((target) => [target, []]))
    for (let i = 0; i < rounds; i++) {
      for (const target of targets) trials.get(target)?.push(await oneAtATime(bench, target))
    }
    return {
      tables: [
        {
          columns: ['system', 'sent → acknowledged ms p50 / p99', 'sent → arrived ms p50 / p99', 'rounds'],
          rows: targets.map((target) => row(target.title, trials.get(target) ?? [])),
        },
      ],
      verdicts: [],
      notes: ['Medians of the rounds. The forwarder acknowledges after the arrival, Posthorn after the commit.'],
      data: Object.fromEntries(targets.map((target) => [target.title, trials.get(target)])),
    }
  },
}

function oneAtATime(bench: Bench, target: Target): Promise<Trial> {
  return trial(bench, target, {
    events: bench.quick ? 100 : 300,
    connections: 1,
    loop: { kind: 'closed', thinkMs: 5, durationMsMax: null },
    delivered: true,
  })
}

function row(title: string, trials: readonly Trial[]): string[] {
  const ofRounds = (pick: (trial: Trial) => { p50: number; p99: number } | null) => {
    const found = trials.map(pick).filter((value) => value !== null)
    const p50 = median(found.map((value) => value.p50))
    return latency({ p50, p95: Number.NaN, p99: median(found.map((value) => value.p99)), max: Number.NaN, count: 0 })
  }
  const rounds = trials.map((each) => number(each.ackMs.p50)).join(' ')
  return [title, ofRounds((each) => each.ackMs), ofRounds((each) => each.arrivalMs), `ack p50: ${rounds}`]
}
