import { z } from 'zod'
import { typePatternProblem } from '../../core/routing.ts'
import type { Api } from '../route.ts'
import { closedQuery, idParam, says } from '../schemas.ts'
import { noticeKinds, type Stream, streamHeaders } from '../stream.ts'

const wordsMax = 100

/** Words with commas between them, each of which passes the check. */
function words(problemOf: (word: string) => string | null, wanted: string) {
  return z
    .string({ error: says(wanted) })
    .transform((text) => text.split(',').map((word) => word.trim()))
    .check((context) => {
      const isTooLong = context.value.length > wordsMax
      const problem = isTooLong ? `must have at most ${wordsMax} words` : context.value.map(problemOf).find(Boolean)
      if (problem) context.issues.push({ code: 'custom', message: problem, input: context.value })
    })
}

const kindsWanted = `must be some of ${noticeKinds.join(', ')}, with commas between them`
const query = closedQuery({
  type: words(typePatternProblem, 'must be types or patterns with commas between them')
    .meta({ description: 'Types or patterns like `order.*`, with commas between them.' })
    .exactOptional(),
  endpoint: idParam('endpoint', 'ep').exactOptional(),
  kinds: words((word) => (noticeKinds.some((kind) => kind === word) ? null : kindsWanted), kindsWanted)
    .meta({ description: `Some of ${noticeKinds.join(', ')}, with commas between them.` })
    .exactOptional(),
})

export function streamRoute(api: Api, stream: Stream): void {
  api.route({
    method: 'GET',
    url: '/v1/stream',
    name: 'listen',
    summary: 'What happens, while it happens (server-sent events); `dropped` tells a slow reader what it missed',
    tag: 'events',
    role: 'read',
    tenants: 'own',
    query,
    problems: ['limit_reached'],
    responses: { 200: { content: { 'text/event-stream': z.string() } } },
    handler: ({ scope, query: { type = [], endpoint = null, kinds = [] }, headers, request, reply }) => {
      if (request.method === 'HEAD') {
        reply.headers(streamHeaders).send()
        return
      }
      stream.open({ scope, filter: { types: type, endpointId: endpoint, kinds }, headers, response: reply.raw })
      reply.hijack()
    },
  })
}
