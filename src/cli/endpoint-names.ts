import { type ApiClient, ApiProblem } from '../server/client.ts'
import { allItems } from './listing.ts'
import { type Row, textOf } from './output.ts'

/** What people call an endpoint, beside its id. */
export type EndpointNames = Readonly<{
  /** Asks the server for those of these items that are not known yet. */
  learn: (items: readonly Row[]) => Promise<void>
  of: (endpointId: unknown) => string
}>

/** More than this many are asked for in pages. */
const singleMax = 8

export function endpointNames(client: ApiClient): EndpointNames {
  const names = new Map<string, string>()
  const remember = (endpoint: unknown) => {
    const row = endpoint as Row
    names.set(textOf(row.id), nameOf(row))
  }
  return {
    of: (endpointId) => names.get(textOf(endpointId)) ?? '-',
    async learn(items) {
      const unknown = [...new Set(items.map(({ endpointId }) => textOf(endpointId)))].filter((id) => !names.has(id))
      if (unknown.length > singleMax) {
        for (const endpoint of await allItems(client, '/v1/endpoints', {})) remember(endpoint)
        for (const id of unknown) if (!names.has(id)) names.set(id, 'deleted')
        return
      }
      for (const id of unknown) {
        const missing = (error: unknown) => {
          if (error instanceof ApiProblem && error.status === 404) names.set(id, 'deleted')
        }
        await client.get(`/v1/endpoints/${encodeURIComponent(id)}`).then(remember, missing)
      }
    },
  }
}

/** Its description, else where it delivers to, without what all of them begin with. */
export function nameOf(endpoint: Row): string {
  const { description } = endpoint
  if (typeof description === 'string' && description !== '') return description
  return targetOf(endpoint).replace(/^https?:\/\//, '')
}

export function targetOf({ kind, url, handler, relay, route }: Row): string {
  return kind === 'relay' ? `${textOf(relay)}/${textOf(route)}` : textOf(url ?? handler)
}
