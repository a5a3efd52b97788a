import { z } from 'zod'
import { endpointKinds, endpointStatuses, targetOf, urlOf } from '../core/endpoint.ts'
import { attentionReasons, nextProbeAt, states } from '../core/status.ts'
import type { EndpointReport, StatusReport } from '../upkeep/status.ts'
import { idShown, instantShown } from './answers.ts'
import { closedObject, cursorQuery, tenant } from './schemas.ts'
import { conditionShown, instant } from './shown.ts'

export const statusQuery = closedObject(
  {
    tenant: tenant.exactOptional(),
    limit: cursorQuery.limit.meta({ description: 'How many endpoints that need attention to list at most.' }),
  },
  'a parameter of the status',
)

const count = z.int().min(0)
const perSecond = z.number().min(0)

const waitingFields = {
  waiting: count.nullable().meta({ description: 'Deliveries that wait; null: not counted yet.' }),
  oldestAt: instantShown.nullable().meta({ description: 'When the oldest of them was received.' }),
}
const countedAt = instantShown
  .nullable()
  .meta({ description: 'When what waits was counted. While counting is quick it is done for every request.' })

const deadLetterAnswer = z.strictObject({
  last24h: count.meta({ description: 'Deliveries that became dead letters, from the beginning of the hour 24 h ago.' }),
  byReason: z.record(z.string(), count).meta({ description: 'The most frequent first.' }),
  kept: count.nullable().meta({ description: 'Dead letters of any age that are there now; null: not counted yet.' }),
})

const endpointFields = {
  endpointId: idShown('ep'),
  tenant: z.string(),
  description: z.string(),
  kind: z.enum(endpointKinds),
  url: z.string().nullable().meta({ description: 'Of http endpoints.' }),
  target: z.string().meta({ description: 'The URL, the name of the handler, or relay/route.' }),
  status: z.enum(endpointStatuses),
  statusReason: z.string().nullable(),
}

/** What the list of breakers, the attention list and an endpoint's figures have in common. */
export const breakerFields = {
  nextProbeAt: instantShown.nullable().meta({
    description: 'When an open breaker lets the next probe through; in the past: with the next delivery.',
  }),
  heldUntil: instantShown.nullable().meta({ description: 'The endpoint asked for no tries before.' }),
  failingSince: instantShown.nullable().meta({ description: 'Nothing but failures since then.' }),
  lastError: z.string().nullable().meta({ description: 'Of the last try that failed; it may be long ago.' }),
  lastErrorAt: instantShown.nullable(),
}

const attempted = z.strictObject({
  seconds: z.number().min(0).meta({ description: 'So long do these counts reach back; not before the last start.' }),
  total: count,
  failed: count,
})

const reportFields = {
  ...endpointFields,
  why: z.enum(attentionReasons).nullable().meta({ description: 'Why it deserves attention; null: it does not.' }),
  ...waitingFields,
  breaker: z.enum(['closed', 'open', 'half_open']),
  failures: count.meta({ description: 'In a row.' }),
  ...breakerFields,
  attempts: attempted,
  successRate: z.number().min(0).max(1).nullable().meta({ description: 'Of these attempts; null: there were none.' }),
  deadLetters: deadLetterAnswer,
}

export const endpointStatsAnswer = z
  .strictObject({ ...reportFields, countedAt })
  .meta({ id: 'EndpointStats', description: 'How one endpoint is.' })

export const statusAnswer = z
  .strictObject({
    state: z.enum(states).meta({
      description: '`trouble`: deliveries fail or wait for somebody to act. `degraded`: they are late, or some fail.',
    }),
    problems: z.array(z.string()).meta({ description: 'What concerns all endpoints, in sentences.' }),
    endpoints: count,
    rates: z.strictObject({
      seconds: z.number().min(0).meta({ description: 'So long do they reach back.' }),
      since: instantShown.meta({ description: 'When the server started: nothing before it is counted.' }),
      acceptedPerSecond: perSecond,
      attemptsPerSecond: perSecond,
      deliveredPerSecond: perSecond,
      failedPerSecond: perSecond.meta({ description: 'Attempts that failed.' }),
    }),
    waiting: z.strictObject({
      count: waitingFields.waiting,
      oldestAt: waitingFields.oldestAt,
      countedAt,
    }),
    deadLetters: deadLetterAnswer,
    attention: z.array(z.strictObject(reportFields)).meta({ description: 'The worst first.' }),
    attentionMore: count.meta({ description: 'How many more endpoints deserve attention.' }),
    hints: z.array(z.string()).meta({ description: 'Commands to type next, the most useful first.' }),
  })
  .meta({ id: 'Status', description: 'Whether all is well, and if not, where to look first.' })

export function statusShown(report: StatusReport) {
  const { rates, waiting, ...rest } = report
  const each = (total: number) => Math.round((total / Math.max(1, rates.spanMs / 1000)) * 100) / 100
  return {
    ...rest,
    rates: {
      seconds: secondsOf(rates.spanMs),
      since: instant(rates.since),
      acceptedPerSecond: each(rates.accepted),
      attemptsPerSecond: each(rates.attempts),
      deliveredPerSecond: each(rates.delivered),
      failedPerSecond: each(rates.failedAttempts),
    },
    waiting: { count: waiting.count, oldestAt: instant(waiting.oldestAt), countedAt: instant(waiting.countedAt) },
    attention: report.attention.map(reportShown),
  }
}

export function endpointStatsShown(report: EndpointReport) {
  return { ...reportShown(report), countedAt: instant(report.countedAt) }
}

/** Where it goes and what keeps it from being tried, as all views of an endpoint's trouble say it. */
export function troubleShown({ endpoint, condition, signs, countedAt: at }: EndpointReport) {
  const { failures, heldUntil, failingSince, lastError, lastErrorAt } = conditionShown(condition)
  return {
    endpointId: endpoint.id,
    tenant: endpoint.tenant,
    description: endpoint.description,
    kind: endpoint.kind,
    url: urlOf(endpoint),
    target: targetOf(endpoint),
    status: endpoint.status,
    statusReason: endpoint.statusReason,
    waiting: at === null ? null : signs.waiting,
    oldestAt: instant(signs.oldestAt),
    failures,
    nextProbeAt: endpoint.status === 'active' ? instant(nextProbeAt(condition.breaker, condition.heldUntil)) : null,
    heldUntil,
    failingSince,
    lastError,
    lastErrorAt,
  }
}

export const troubleFields = { ...endpointFields, ...waitingFields, ...breakerFields }

function reportShown(report: EndpointReport) {
  const { attempts, failedAttempts, delivered, spanMs } = report.recent
  return {
    ...troubleShown(report),
    why: report.why,
    breaker: report.condition.breaker.state,
    attempts: { seconds: secondsOf(spanMs), total: attempts, failed: failedAttempts },
    successRate: attempts === 0 ? null : Math.round((delivered / attempts) * 1000) / 1000,
    deadLetters: report.deadLetters,
  }
}

function secondsOf(ms: number): number {
  return Math.round(ms / 1000)
}
