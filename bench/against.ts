import { type Bench, type BenchOptions, type Figure, type Trial, withBench } from './bench.ts'
import { Checkout, describeTree } from './checkout.ts'
import type { Posthorn } from './posthorn.ts'
import { renderTable, spread } from './report.ts'
import { root } from './rig.ts'
import { type Spread, spreadOf } from './statistics.ts'

/** A checkout whose server takes part. The benchmark around it is always that of the working tree. */
export type Entrant = Readonly<{ title: string; root: string }>

export type Measure = Readonly<{ what: string; better: 'more' | 'less'; of: (trial: Trial) => number }>

/** How a figure compares two checkouts: the same servers under the same load, without the baseline. */
export type Versus = Readonly<{
  /** Once for each entrant. What comes back starts its server, as often as there are pairs. */
  prepare: (bench: Bench, entrant: Entrant) => Promise<() => Promise<Posthorn>>
  warmUp: (bench: Bench, server: Posthorn) => Promise<Trial>
  run: (bench: Bench, server: Posthorn) => Promise<Trial>
  measures: readonly Measure[]
}>

export type ComparedFigure = Figure & Readonly<{ versus: Versus }>
export type Judgement = 'better' | 'worse' | 'no difference beyond noise' | 'too few pairs to say'

/** Fewer pairs have quartiles that mean nothing. */
const pairsToJudgeMin = 5

/** One round: the new server, the old one, and the old one again. */
type Round = Readonly<{ ours: Trial; theirs: Trial; theirsAgain: Trial }>
type Row = Readonly<{ what: string; ratio: Spread; noise: Spread; judgement: Judgement }>

/** Compares the working tree with a commit. Answers whether every figure was measured and none got worse. */
export async function compareWith(
  ref: string,
  figures: readonly ComparedFigure[],
  pairs: number,
  options: BenchOptions,
): Promise<Readonly<{ allWell: boolean; data: unknown }>> {
  const checkout = new Checkout(root, ref, options.folder, (line) => console.error(line))
  try {
    console.log(`\nnew: the working tree, ${describeTree(root)}\nold: ${ref}, ${checkout.commit.slice(0, 12)}`)
    const data: Record<string, unknown> = {}
    let allWell = true
    for (const figure of figures) {
      console.log(
        `\n${figure.title.split(', against')[0]}: new / old${options.quick ? ' (quick: not for the record)' : ''}\n`,
      )
      const rounds = await withBench(options, figure.name, (bench) => roundsOf(bench, figure.versus, checkout, pairs))
      const rows = figure.versus.measures.map((measure) => rowOf(measure, rounds))
      printRows(rows, pairs)
      data[figure.name] = { rounds, rows }
      allWell &&= rows.every(({ judgement }) => judgement !== 'worse')
    }
    return { allWell, data }
  } finally {
    checkout.close()
  }
}

/** Each round has servers of its own: how one process happens to be laid out or compiled is noise as well. */
async function roundsOf(bench: Bench, versus: Versus, checkout: Checkout, pairs: number): Promise<readonly Round[]> {
  const titles = ['new', 'old', 'old again']
  const entrants = titles.map((title) => ({ title, root: title === 'new' ? root : checkout.root }))
  const starts: (() => Promise<Posthorn>)[] = []
  for (const entrant of entrants) starts.push(await versus.prepare(bench, entrant))
  const rounds: Round[] = []
  for (let at = 0; at < pairs; at++) {
    const servers: Posthorn[] = []
    for (const start of starts) servers.push(await start())
    for (const server of servers) await versus.warmUp(bench, server)
    rounds.push(await roundOf(bench, versus, servers, at % 2 === 1))
    for (const server of servers) await server.stop()
    bench.say(`  pair ${at + 1} of ${pairs}`)
  }
  return rounds
}

/** A B B A: who was first is last the next time, and the old server is always between the other two. */
async function roundOf(bench: Bench, versus: Versus, servers: readonly Posthorn[], backwards: boolean): Promise<Round> {
  const trials: Trial[] = []
  for (const server of backwards ? servers.toReversed() : servers) trials.push(await versus.run(bench, server))
  const [ours, theirs, theirsAgain] = backwards ? trials.toReversed() : trials
  if (ours === undefined || theirs === undefined || theirsAgain === undefined) throw new Error('a round needs three')
  return { ours, theirs, theirsAgain }
}

function rowOf({ what, better, of }: Measure, rounds: readonly Round[]): Row {
  const ratio = spreadOf(rounds.map(({ ours, theirs }) => of(ours) / of(theirs)))
  const noise = spreadOf(rounds.map(({ theirs, theirsAgain }) => of(theirsAgain) / of(theirs)))
  return { what: `${what} (${better} is better)`, ratio, noise, judgement: judge(ratio, noise, better) }
}

/** Beyond noise: the quartiles of new/old and of old/old do not touch. */
export function judge(ratio: Spread, noise: Spread, better: Measure['better']): Judgement {
  if (ratio.count < pairsToJudgeMin) return 'too few pairs to say'
  const above = ratio.low > noise.high
  const below = ratio.high < noise.low
  if (!above && !below) return 'no difference beyond noise'
  return above === (better === 'more') ? 'better' : 'worse'
}

function printRows(rows: readonly Row[], pairs: number): void {
  const columns = ['median [quartiles] (min–max)', 'new / old', 'A/A: old / old', `over ${pairs} pairs`]
  const cells = rows.map((row) => [row.what, spread(row.ratio), spread(row.noise), row.judgement])
  console.log(renderTable({ columns, rows: cells }))
}
