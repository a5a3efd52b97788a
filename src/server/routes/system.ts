import type { FastifyInstance } from 'fastify'
import { readinessOf } from '../../upkeep/health.ts'
import type { ServerParts } from '../server.ts'

/** Served without a key, to whoever can reach the port: they tell nothing but how Posthorn is. */
export const openUrls: ReadonlySet<string> = new Set(['/healthz', '/readyz'])

export function systemRoutes(app: FastifyInstance, parts: ServerParts, isStopping: () => boolean): void {
  const { store, dispatcher, metrics, version } = parts

  app.get('/healthz', async () => ({ status: 'ok', version }))

  app.get('/readyz', async (_, reply) => {
    const outcomesWritable = dispatcher.settling.writable
    const { ready, reasons } = readinessOf({ store: store.health(), outcomesWritable, stopping: isStopping() })
    if (!ready) reply.code(503).header('retry-after', '5')
    return { status: ready ? 'ready' : 'not_ready', reasons, paused: dispatcher.paused }
  })

  app.get('/metrics', async (_, reply) => {
    reply.header('content-type', metrics.contentType)
    return metrics.page()
  })
}
