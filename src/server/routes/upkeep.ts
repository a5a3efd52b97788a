import { z } from 'zod'
import type { UpkeepReport, UpkeepState } from '../../upkeep/upkeep.ts'
import { instantShown } from '../answers.ts'
import type { Api } from '../route.ts'
import type { ServerParts } from '../server.ts'
import { instant } from '../shown.ts'

/** A run that takes longer goes on by itself; who asked for it looks again. */
const waitMsMax = 20_000

const count = z.number().int().min(0)

const report = z.strictObject({
  startedAt: instantShown,
  tookMs: count,
  expired: count,
  deliveries: count,
  events: count,
  keys: count,
  replays: count,
  pagesFreed: count,
  full: z.boolean(),
  skipped: z.enum(['just_started', 'clocks_apart', 'stopping']).nullable(),
})
const state = z
  .strictObject({ running: z.boolean(), nextAt: instantShown.nullable(), last: report.nullable() })
  .meta({ id: 'Upkeep', description: 'What was expired and deleted last, and when that is done again.' })
const paused = z.strictObject({ paused: z.boolean() })

/** About the whole server, so for those alone who may see all of it. */
const wide = { tag: 'system', role: 'admin', tenants: 'all' } as const

export function upkeepRoutes(api: Api, { upkeep, pauseOfAll }: ServerParts): void {
  api.route({
    ...wide,
    method: 'GET',
    url: '/v1/upkeep',
    name: 'getUpkeep',
    summary: 'What the last run of upkeep did',
    responses: { 200: state },
    handler: () => shown(upkeep.state),
  })

  api.route({
    ...wide,
    method: 'POST',
    url: '/v1/upkeep',
    name: 'runUpkeep',
    summary: 'Expire and delete now what is due for it; 202 when the run goes on after the answer',
    responses: { 200: state, 202: state },
    handler: async ({ reply }) => {
      if (!(await within(upkeep.run(), waitMsMax))) reply.code(202)
      return shown(upkeep.state)
    },
  })

  api.route({
    ...wide,
    method: 'POST',
    url: '/v1/dispatch/pause',
    name: 'pauseDispatch',
    summary: 'Keep events and deliver none, until resumed',
    responses: { 200: paused },
    handler: async () => {
      await pauseOfAll.set(true)
      return { paused: pauseOfAll.paused }
    },
  })

  api.route({
    ...wide,
    method: 'POST',
    url: '/v1/dispatch/resume',
    name: 'resumeDispatch',
    summary: 'Deliver again',
    responses: { 200: paused },
    handler: async () => {
      await pauseOfAll.set(false)
      return { paused: pauseOfAll.paused }
    },
  })
}

async function within(run: Promise<unknown>, ms: number): Promise<boolean> {
  const late = Promise.withResolvers<false>()
  const timer = setTimeout(() => late.resolve(false), ms)
  try {
    return await Promise.race([run.then(() => true), late.promise])
  } finally {
    clearTimeout(timer)
  }
}

function shown({ running, nextAt, last }: UpkeepState) {
  return { running, nextAt: instant(nextAt), last: last === null ? null : reportShown(last) }
}

function reportShown({ startedAt, ...counts }: UpkeepReport) {
  return { startedAt: instant(startedAt), ...counts }
}
