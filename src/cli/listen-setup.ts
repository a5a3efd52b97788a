import { randomBytes } from 'node:crypto'
import { relayNameProblem } from '../core/relay.ts'
import { type ApiClient, ApiProblem, Unreachable } from '../server/client.ts'
import { rowOf } from './answers.ts'
import { CommandFailed, UsageError } from './failure.ts'
import { allItems } from './listing.ts'
import { counted, type Row, textOf } from './output.ts'

/** The one route of a hub that listens; by it an endpoint is known as one of ours. */
export const listenRoute = 'listen'
const madeUpPrefix = 'listen-'
const madeUpBytes = 4

/** A person waits: what fails is tried for some seconds and can be sent again by hand. */
const retry = { strategy: 'exponential', baseDelay: '1s', multiplier: 2, maxDelay: '8s', maxAttempts: 5 }
/** Time for a look around at a breakpoint. */
const timeout = '60s'
const removalMsMax = 10_000

export type SetupWish = Readonly<{ types?: readonly string[]; name?: string; tenant?: string }>

/** What `listen` has at the edge. */
export type Setup = Readonly<{
  relayId: string
  relayName: string
  key: string
  endpointId: string
  secret: string
  types: readonly string[]
  /** It stays for the next run with its name. */
  isKept: boolean
}>

type Opened = Readonly<{ setup: Setup; notes: readonly string[] }>

/** Makes a relay and its endpoint, or takes up those of an earlier run with the same name. */
export async function openSetup(client: ApiClient, wish: SetupWish): Promise<Opened> {
  const name = wish.name ?? `${madeUpPrefix}${randomBytes(madeUpBytes).toString('hex')}`
  const problem = relayNameProblem(name)
  if (problem !== null) throw new UsageError(`--name ${problem}`)
  if (wish.name?.startsWith(madeUpPrefix)) {
    throw new UsageError(`--name must not begin with ${madeUpPrefix}: by that a run without a name is known`)
  }
  const kept = wish.name === undefined ? null : await relayNamed(client, name, wish)
  return kept === null ? create(client, name, wish) : takeUp(client, kept, wish)
}

async function create(client: ApiClient, name: string, wish: SetupWish): Promise<Opened> {
  const owner = wish.tenant === undefined ? {} : { tenant: wish.tenant }
  const relay = rowOf(await client.post('/v1/relays', { name, ...owner }))
  const relayId = textOf(relay.id)
  try {
    const endpoint = rowOf(
      await client.post('/v1/endpoints', {
        kind: 'relay',
        relay: name,
        route: listenRoute,
        ordering: 'endpoint',
        description: 'posthorn listen',
        retry,
        timeout,
        ...owner,
        ...(wish.types !== undefined && { types: wish.types }),
      }),
    )
    const found = { endpointId: textOf(endpoint.id), secret: textOf(endpoint.secret), types: typesOf(endpoint) }
    const setup = { relayId, relayName: name, key: textOf(relay.key), ...found, isKept: wish.name !== undefined }
    return { setup, notes: [] }
  } catch (error) {
    await remove(client, `/v1/relays/${encodeURIComponent(relayId)}`).catch(() => undefined)
    throw error
  }
}

async function takeUp(client: ApiClient, relay: Row, wish: SetupWish): Promise<Opened> {
  const relayName = textOf(relay.name)
  const endpoint = await endpointOf(client, relay)
  if (endpoint === undefined) {
    throw new CommandFailed(
      `${relayName} is a relay that listen has not made; choose another --name, so that its hub is not cut off.`,
    )
  }
  const endpointId = textOf(endpoint.id)
  const relayId = textOf(relay.id)
  const { key } = rowOf(await client.post(`/v1/relays/${encodeURIComponent(relayId)}/rotate-key`))
  const at = `/v1/endpoints/${encodeURIComponent(endpointId)}`
  if (wish.types !== undefined) await client.json('PATCH', at, { body: { types: wish.types } })
  const { secret } = rowOf(await client.get(`${at}/secret`))
  const notes = [
    `going on as ${relayName}, with what has waited`,
    ...(relay.connected === true ? [`another listen --name ${relayName} is cut off by this one`] : []),
    ...(endpoint.status === 'active'
      ? []
      : [`${endpointId} is ${textOf(endpoint.status)}: posthorn endpoints resume ${endpointId}`]),
  ]
  const found = { endpointId, secret: textOf(secret), types: wish.types ?? typesOf(endpoint) }
  return { setup: { relayId, relayName, key: textOf(key), ...found, isKept: true }, notes }
}

function typesOf({ types }: Row): readonly string[] {
  return Array.isArray(types) ? types.map(textOf) : []
}

async function relayNamed(client: ApiClient, name: string, { tenant }: SetupWish): Promise<Row | null> {
  const named = (await allItems(client, '/v1/relays', { tenant })).filter((relay) => relay.name === name)
  if (named.length > 1) throw new UsageError(`more than one tenant has a relay ${name}; say which with --tenant`)
  return named[0] ?? null
}

/** Its endpoint, if it is one that `listen` has made. */
async function endpointOf(client: ApiClient, relay: Row): Promise<Row | undefined> {
  const tenant = textOf(relay.tenant)
  const endpoints = await allItems(client, '/v1/endpoints', { kind: 'relay', tenant })
  return endpoints.find((endpoint) => endpoint.relay === relay.name && endpoint.route === listenRoute)
}

/** What runs that were killed have left behind, and how to remove it. */
export async function leftoverLines(client: ApiClient, wish: SetupWish): Promise<readonly string[]> {
  const relays = await allItems(client, '/v1/relays', { tenant: wish.tenant })
  const left = relays.filter((relay) => textOf(relay.name).startsWith(madeUpPrefix) && relay.connected === false)
  const others = left.filter((relay) => relay.name !== wish.name)
  if (others.length === 0) return []
  const endpoints = others.flatMap((relay) => (Array.isArray(relay.endpoints) ? relay.endpoints : []))
  return [
    `${counted(others.length, 'relay')} of an earlier listen that is gone; to remove what is left:`,
    ...endpoints.map((id) => `  posthorn endpoints delete ${textOf(id)} --yes`),
    ...others.map(({ id }) => `  posthorn relays revoke ${textOf(id)} --yes`),
  ]
}

/** Null when nothing is left; else a sentence that says what is, and how to remove it. */
export async function removeSetup(client: ApiClient, { endpointId, relayId }: Setup): Promise<string | null> {
  try {
    await remove(client, `/v1/endpoints/${encodeURIComponent(endpointId)}`)
    await remove(client, `/v1/relays/${encodeURIComponent(relayId)}`)
    return null
  } catch (error) {
    if (!(error instanceof ApiProblem || error instanceof Unreachable)) throw error
    const how = `posthorn endpoints delete ${endpointId} --yes; posthorn relays revoke ${relayId} --yes`
    return `${error.message}\nWhat was set up is left there; remove it later: ${how}`
  }
}

async function remove(client: ApiClient, at: string): Promise<void> {
  try {
    await client.json('DELETE', at, { silenceMsMax: removalMsMax })
  } catch (error) {
    // Somebody was quicker.
    if (!(error instanceof ApiProblem && error.status === 404)) throw error
  }
}
