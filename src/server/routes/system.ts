import { Buffer } from 'node:buffer'
import { z } from 'zod'
import { describeConfig } from '../../config.ts'
import { readinessOf } from '../../upkeep/health.ts'
import { pageOf } from '../answers.ts'
import { openApiDocument } from '../openapi.ts'
import type { Api } from '../route.ts'
import type { ServerParts } from '../server.ts'

const healthy = z.strictObject({ status: z.literal('ok'), version: z.string() })
const readiness = z.strictObject({
  status: z.enum(['ready', 'not_ready']),
  reasons: z.array(z.string()),
  paused: z.boolean().meta({ description: 'Events are kept, and nothing is delivered until somebody resumes.' }),
})

export function systemRoutes(api: Api, parts: ServerParts, isStopping: () => boolean): void {
  healthRoutes(api, parts, isStopping)
  descriptionRoutes(api, parts)
  configRoute(api, parts)
}

const setting = z
  .strictObject({
    name: z.string(),
    env: z.string().meta({ description: 'Its environment variable.' }),
    value: z.string().meta({ description: 'As it would be written; a secret is masked.' }),
    origin: z.enum(['flag', 'env', 'file', 'default']),
  })
  .meta({ id: 'Setting' })

/** Paths and addresses of the machine are in it: it is for those who run the server. */
function configRoute(api: Api, { config }: ServerParts): void {
  api.route({
    method: 'GET',
    url: '/v1/config',
    name: 'getConfig',
    summary: 'Every setting of this server, its value and where the value comes from; secrets are masked',
    tag: 'system',
    role: 'admin',
    tenants: 'all',
    responses: { 200: pageOf(setting) },
    handler: () => ({ items: describeConfig(config), next: null }),
  })
}

function healthRoutes(api: Api, { store, dispatcher, version }: ServerParts, isStopping: () => boolean): void {
  // The open ones are served without a key, to whoever can reach the port: they tell nothing but how Posthorn is.
  api.route({
    method: 'GET',
    url: '/healthz',
    name: 'getHealth',
    summary: 'Whether the process lives',
    tag: 'system',
    role: null,
    responses: { 200: healthy },
    handler: () => ({ status: 'ok', version }),
  })

  api.route({
    method: 'GET',
    url: '/readyz',
    name: 'getReadiness',
    summary: 'Whether events can be kept, and if not, why',
    tag: 'system',
    role: null,
    responses: { 200: readiness, 503: readiness },
    handler: ({ reply }) => {
      const outcomesWritable = dispatcher.settling.writable
      const { ready, reasons } = readinessOf({ store: store.health(), outcomesWritable, stopping: isStopping() })
      if (!ready) reply.code(503).header('retry-after', '5')
      return { status: ready ? 'ready' : 'not_ready', reasons, paused: dispatcher.paused }
    },
  })
}

function descriptionRoutes(api: Api, { metrics, version }: ServerParts): void {
  /** Made once and shared by all answers: it is the largest of those that need no key. */
  let document: Buffer | null = null

  api.route({
    method: 'GET',
    url: '/openapi.json',
    name: 'getOpenApi',
    summary: 'This document: OpenAPI 3.1',
    tag: 'system',
    role: null,
    responses: { 200: z.looseObject({ openapi: z.literal('3.1.0') }) },
    handler: ({ reply }) => {
      document ??= Buffer.from(JSON.stringify(openApiDocument(api.routes, version)))
      reply.header('content-type', 'application/json')
      return document
    },
  })

  api.route({
    method: 'GET',
    url: '/metrics',
    name: 'getMetrics',
    summary: 'Figures for Prometheus',
    tag: 'system',
    role: 'read',
    tenants: 'all',
    responses: { 200: { content: { 'text/plain': z.string() } } },
    handler: async ({ reply }) => {
      reply.header('content-type', metrics.contentType)
      return metrics.page()
    },
  })
}
