import { type ApiClient, ApiProblem, Unreachable } from '../server/client.ts'
import { allItems } from './listing.ts'
import { type Row, textOf } from './output.ts'
import { printable, type Terminal } from './terminal.ts'

/** The endpoint is made, and that stays so: a hub that is to have the route may come later. But nobody waits unknowingly. */
export async function warnOfRoute(terminal: Terminal, client: ApiClient, endpoint: Row): Promise<void> {
  if (endpoint.kind !== 'relay') return
  const relay = await relayOf(client, endpoint)
  const route = textOf(endpoint.route)
  if (relay === undefined || !Array.isArray(relay.routes) || relay.routes.includes(route)) return
  const has = relay.routes.length === 0 ? 'it has none' : `it has ${relay.routes.map(textOf).join(', ')}`
  const hub = `the hub of the relay ${textOf(relay.name)} is connected and has no route ${route} (${has})`
  terminal.say(printable(`warning: ${hub}: deliveries wait until it is started with --route ${route}=<url>`))
}

/** Nothing is said when it cannot be found out: what was asked for is done. */
async function relayOf(client: ApiClient, { relay: name, tenant }: Row): Promise<Row | undefined> {
  try {
    return (await allItems(client, '/v1/relays', { tenant: textOf(tenant) })).find((relay) => relay.name === name)
  } catch (error) {
    if (error instanceof ApiProblem || error instanceof Unreachable) return undefined
    throw error
  }
}
