import { type Command, InvalidArgumentError, Option } from 'commander'
import { type BreakerPolicy, defaultBreaker } from '../core/circuit-breaker.ts'
import { presetNames, presets, processingPolicy, type RetryPolicy } from '../core/retry-policy.ts'
import { type Scenario, type Simulated, simulate, simulatedTriesMax } from '../core/simulation.ts'
import { durationMs, json, wholeNumber, wordOrJson } from './arguments.ts'
import { configFrom } from './config-flags.ts'
import { UsageError } from './failure.ts'
import { type Column, type Format, ListPrinter, printItem, type Row, withFormat } from './output.ts'
import { intervalFor, intervalsOf, plotLines, timeText } from './plot.ts'
import type { Terminal } from './terminal.ts'

type SimulateFlags = Readonly<{
  output: Format
  retry: unknown
  outage: number
  events: number
  rate?: number
  breaker: unknown
  capacity?: number
  concurrency: number
  latency: number
  seed: number
}>

/** One way of retrying, played against the outage. */
type Played = Readonly<{ name: string; result: Simulated }>

const eventsMax = 100_000
const concurrencyMax = 1_000
const outageMsMax = 30 * 86_400_000
const columnsInPipe = 80
const columnsMax = 120
const afterHelp = `
Nothing is sent and no server is needed: the rules of retries and breaker are played against an endpoint that is down
from the first moment on. It is compared with the same policy without jitter, and without the breaker.`

export function addSimulate(program: Command, terminal: Terminal): void {
  const command = program
    .command('simulate')
    .description('play a retry policy against an outage and draw the load on the endpoint')
    .addOption(
      new Option('--retry <preset|json>', `${presetNames.join(', ')}, or a policy as JSON`)
        .argParser(wordOrJson)
        .default('webhook'),
    )
    .addOption(
      new Option('--outage <duration>', 'how long the endpoint is down').argParser(outage).default(20 * 60_000, '20m'),
    )
    .option('--events <n>', 'how many events there are', wholeNumber(1, eventsMax), 1_000)
    .option('--rate <n/s>', 'how fast they come, such as 50/s (default: all at once, the worst case)', perSecond)
    .addOption(
      new Option('--breaker <json|off>', 'circuit breaker, such as {"threshold":5,"cooldown":"5m"}')
        .argParser((text) => (text === 'off' ? false : json(text)))
        .default({}, 'that of endpoints'),
    )
    .option('--capacity <n/s>', 'what the endpoint can take; more is answered with 503 (default: no limit)', perSecond)
    .option('--concurrency <n>', 'tries at once', wholeNumber(1, concurrencyMax), 10)
    .addOption(new Option('--latency <duration>', 'how long a try takes').argParser(latency).default(50, '50ms'))
    .option('--seed <n>', 'the same seed gives the same chances', wholeNumber(0, 2 ** 32 - 1), 1)
    .option('--config <file>', 'read the settings of the processing preset from a JSON file')
    .addHelpText('after', afterHelp)
  withFormat(command).action((flags: SimulateFlags) => runSimulation(flags, terminal))
}

async function runSimulation(flags: SimulateFlags, terminal: Terminal): Promise<void> {
  const scenario = await scenarioOf(flags, terminal)
  const played = variantsOf(scenario).map(
    ([name, variant]): Played => ({ name, result: simulate({ ...scenario, ...variant }) }),
  )
  const lengthMs = Math.max(scenario.outageMs, ...played.map(({ result }) => result.endedAt)) + 1
  switch (flags.output) {
    case 'json':
      printItem(terminal, 'json', { scenario: scenarioShown(flags, scenario), results: played.map(shown) })
      return
    case 'jsonl':
      for (const one of played) terminal.print(JSON.stringify(shown(one)))
      return
    case 'table':
      draw(terminal, played, scenario, lengthMs)
  }
}

async function scenarioOf(flags: SimulateFlags, terminal: Terminal): Promise<Scenario> {
  const { retrySchema } = await import('../server/retry-schema.ts')
  const { breakerSchema } = await import('../server/breaker-schema.ts')
  const { fieldErrors } = await import('../server/schemas.ts')
  const config = await configFrom({}, terminal)
  const retry = retrySchema({ ...presets, processing: processingPolicy(config) }).safeParse(flags.retry)
  const breaker = breakerSchema.safeParse(flags.breaker)
  const problems = [
    ...(retry.success ? [] : fieldErrors(retry.error.issues, ['--retry'])),
    ...(breaker.success ? [] : fieldErrors(breaker.error.issues, ['--breaker'])),
  ]
  if (!retry.success || !breaker.success) {
    throw new UsageError(problems.map(({ path, message }) => `${path} ${message}`).join('\n'))
  }
  return {
    policy: retry.data,
    breaker: breaker.data,
    events: flags.events,
    eventsPerSecond: flags.rate ?? null,
    outageMs: flags.outage,
    capacityPerSecond: flags.capacity ?? null,
    concurrency: flags.concurrency,
    tookMs: flags.latency,
    seed: flags.seed,
  }
}

/** What was asked for, and what it is worth: the same without jitter, the same without the breaker. */
function variantsOf({ policy, breaker }: Scenario): readonly (readonly [string, Partial<Scenario>])[] {
  return [
    ['as given', {}],
    ...(hasJitter(policy) ? [['without jitter', { policy: withoutJitter(policy) }] as const] : []),
    ...(breaker === null ? [] : [['without breaker', { breaker: null }] as const]),
  ]
}

function hasJitter({ jitter }: RetryPolicy): boolean {
  switch (jitter.kind) {
    case 'ratio':
      return jitter.ratio > 0
    case 'added':
      return jitter.maxMs > 0
  }
}

function withoutJitter(policy: RetryPolicy): RetryPolicy {
  return { ...policy, preset: null, jitter: { kind: 'ratio', ratio: 0 } }
}

function draw(terminal: Terminal, played: readonly Played[], scenario: Scenario, lengthMs: number): void {
  const columns = Math.min(columnsMax, terminal.columns() ?? columnsInPipe)
  // Room for the highest number, with its commas, and the axis.
  const intervalMs = intervalFor(lengthMs, columns - scenario.events.toLocaleString('en').length - 6)
  const intervals = Math.max(1, Math.ceil(lengthMs / intervalMs))
  const frames = played.map(({ name, result }) => ({
    name,
    frame: { load: result.load, intervalMs, intervals, outageMs: scenario.outageMs },
  }))
  const peak = Math.max(...frames.flatMap(({ frame }) => intervalsOf(frame).map(({ tries }) => tries)))
  for (const { name, frame } of frames) {
    terminal.print(terminal.paint('bold', `tries per ${timeText(intervalMs)}, ${name}`))
    for (const line of plotLines({ ...frame, peak }, terminal.paint)) terminal.print(line)
    terminal.print('')
  }
  const printer = new ListPrinter(terminal, 'table', resultColumns)
  printer.add(played.map(shown))
  printer.end('')
  if (played.some(({ result }) => result.waiting > 0)) {
    terminal.say(`cut short after ${simulatedTriesMax.toLocaleString('en')} tries: the policy does not give up`)
  }
}

const resultColumns: readonly Column[] = [
  { title: 'POLICY', show: ({ name }) => String(name) },
  { title: 'DELIVERED', show: ({ delivered }) => numberText(delivered), colour: allOrNot },
  { title: 'FAILED', show: ({ failed }) => numberText(failed) },
  { title: 'TRIES', show: ({ tries }) => numberText(tries) },
  { title: 'IN OUTAGE', show: ({ triesInOutage }) => numberText(triesInOutage) },
  { title: 'PEAK AFTER', show: ({ peakAfterOutage }) => `${numberText(peakAfterOutage)}/s` },
  {
    title: 'LAST DELIVERED',
    show: ({ lastDeliveredAfterMs: ms }) => (typeof ms === 'number' ? timeText(ms) : '-'),
  },
]

function allOrNot({ failed, waiting }: Row): 'green' | 'red' {
  return failed === 0 && waiting === 0 ? 'green' : 'red'
}

function numberText(value: unknown): string {
  return Number(value).toLocaleString('en')
}

function shown({ name, result }: Played): Row {
  const { delivered, failed, waiting, tries, triesInOutage, peakPerSecond, peakAfterOutage } = result
  const counts = { delivered, failed, waiting, tries, triesInOutage, peakPerSecond, peakAfterOutage }
  return {
    name,
    ...counts,
    lastDeliveredAfterMs: result.lastDeliveredAt,
    endedAfterMs: result.endedAt,
    load: result.load,
  }
}

function scenarioShown(flags: SimulateFlags, scenario: Scenario): Row {
  const { breaker, events, eventsPerSecond, outageMs, capacityPerSecond, concurrency, tookMs, seed } = scenario
  const policy = { retry: flags.retry, breaker: breakerShown(breaker) }
  return { ...policy, events, eventsPerSecond, outageMs, capacityPerSecond, concurrency, tookMs, seed }
}

function breakerShown(breaker: BreakerPolicy | null): unknown {
  if (breaker === null) return false
  const { threshold, cooldownMs, whenOpen } = { ...defaultBreaker, ...breaker }
  return { threshold, cooldownMs, whenOpen }
}

function perSecond(text: string): number {
  const [, count, unit = 's'] = /^(\d+(?:\.\d+)?)(?:\/(s|m|h))?$/.exec(text) ?? []
  const rate = Number(count) / { s: 1, m: 60, h: 3_600 }[unit as 's' | 'm' | 'h']
  if (rate > 0) return rate
  throw new InvalidArgumentError('A rate reads like 50/s, 300/m or 1000/h.')
}

function outage(text: string): number {
  const ms = durationMs(text)
  if (ms <= outageMsMax) return ms
  throw new InvalidArgumentError('It is at most 30d.')
}

function latency(text: string): number {
  const ms = durationMs(text)
  if (ms >= 1 && ms <= 300_000) return ms
  throw new InvalidArgumentError('It is from 1ms to 5m.')
}
