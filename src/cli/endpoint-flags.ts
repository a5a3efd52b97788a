import { type Command, InvalidArgumentError, Option } from 'commander'
import { orderings } from '../core/endpoint.ts'
import { presetNames } from '../core/retry-policy.ts'
import { durationText, header, json, wholeNumber, wordOrJson, words } from './arguments.ts'

/** What can be chosen about an endpoint, by the names of the API. */
export type EndpointFlags = Readonly<{
  relay?: string
  route?: string
  types?: readonly string[]
  ordering?: string
  retry?: unknown
  concurrency?: number
  /** Not null: commander would make a text of it. */
  rateLimit?: Readonly<{ perSecond: number }> | 'off'
  timeout?: string
  header?: Readonly<Record<string, string>>
  tenant?: string
  description?: string
  breaker?: unknown
  classify?: unknown
  disableAfter?: string | false
  forwardHeaders?: boolean
}>

const concurrencyMax = 1_000

export function withEndpointFlags(command: Command): Command {
  return command
    .option('--relay <name>', 'deliver to a hub that connects here, see posthorn relays')
    .option('--route <name>', 'what that hub calls the place where these events go')
    .option('--types <patterns>', "which events: 'order.*,invoice.paid' (default all); may be repeated", words)
    .addOption(new Option('--ordering <how>', 'none, by event key, or strictly one after another').choices(orderings))
    .option('--retry <preset|json>', `${presetNames.join(', ')}, or a policy as JSON`, wordOrJson)
    .option('--concurrency <n>', 'tries in flight at once', wholeNumber(1, concurrencyMax))
    .option('--rate-limit <n>', 'tries a second; off for no limit', rateLimit)
    .option('--timeout <duration>', 'how long one try may take', durationText)
    .option('--header <name=value>', 'sent with every try; may be repeated', header)
    .option('--description <text>', 'a note for people')
    .option('--breaker <json|off>', 'circuit breaker, such as {"threshold":5,"cooldown":"5m"}', breaker)
    .option('--disable-after <duration|off>', 'with nothing but failures for this long it is disabled', disableAfter)
    .option('--forward-headers', 'send on the headers that a source kept')
    .option('--no-forward-headers', 'do not')
    .option('--classify <json>', 'what single statuses mean, such as {"409":"retryable"}', json)
}

/** The request that the flags stand for; what was not said is left to the server. */
export function endpointBody(flags: EndpointFlags): Record<string, unknown> {
  const { types, ordering, retry, concurrency, rateLimit, timeout, header: headers } = flags
  const { relay, route, tenant, description, breaker, classify, disableAfter, forwardHeaders } = flags
  const fields = { relay, route, types, ordering, retry, concurrency, timeout, headers, tenant, description }
  const limit = rateLimit === 'off' ? null : rateLimit
  const said = Object.entries({ ...fields, rateLimit: limit, breaker, classify, disableAfter, forwardHeaders }).filter(
    ([, value]) => value !== undefined,
  )
  return Object.fromEntries(said)
}

function rateLimit(text: string): EndpointFlags['rateLimit'] {
  if (text === 'off') return 'off'
  const perSecond = Number(text)
  if (text.trim() !== '' && perSecond > 0) return { perSecond }
  throw new InvalidArgumentError('It is a number of tries a second, or off.')
}

function breaker(text: string): unknown {
  return text === 'off' ? false : json(text)
}

function disableAfter(text: string): string | false {
  return text === 'off' ? false : durationText(text)
}
