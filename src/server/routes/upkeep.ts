import type { FastifyInstance } from 'fastify'
import type { UpkeepReport, UpkeepState } from '../../upkeep/upkeep.ts'
import type { ServerParts } from '../server.ts'

/** A run that takes longer goes on by itself; who asked for it looks again. */
const waitMsMax = 20_000

export function upkeepRoutes(app: FastifyInstance, { upkeep, dispatcher }: ServerParts): void {
  app.get('/v1/upkeep', async () => shown(upkeep.state))

  app.post('/v1/upkeep', async (_, reply) => {
    const isOver = await within(upkeep.run(), waitMsMax)
    return reply.code(isOver ? 200 : 202).send(shown(upkeep.state))
  })

  app.post('/v1/dispatch/pause', async () => {
    dispatcher.pause()
    return { paused: dispatcher.paused }
  })

  app.post('/v1/dispatch/resume', async () => {
    dispatcher.resume()
    return { paused: dispatcher.paused }
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

function shown({ running, last, nextAt }: UpkeepState) {
  return { running, nextAt: nextAt === null ? null : instant(nextAt), last: last === null ? null : reportShown(last) }
}

function reportShown({ startedAt, ...counts }: UpkeepReport) {
  return { startedAt: instant(startedAt), ...counts }
}

function instant(at: number): string {
  return new Date(at).toISOString()
}
