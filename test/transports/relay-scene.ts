import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { TestContext } from 'node:test'
import type { RelayEndpoint } from '../../src/core/endpoint.ts'
import { laneOf } from '../../src/core/lanes.ts'
import type { Relay } from '../../src/core/relay.ts'
import type { Logger } from '../../src/log.ts'
import {
  type LinkChange,
  RelayTransport,
  type RelayTransportParts,
} from '../../src/transports/relay/relay-transport.ts'
import type { Parcel } from '../../src/transports/transport.ts'
import { anEndpoint, anEvent, anId, t0 } from '../support/builders.ts'
import { ScriptedHub } from '../support/scripted-hub.ts'

const monotonic = () => Math.floor(performance.now())

export const never = new AbortController().signal

export function aRelay(given: Partial<Relay> = {}): Relay {
  return { id: anId('rly'), name: 'home', tenant: 'default', hash: 'x', createdAt: t0, ...given }
}

export function aRelayEndpoint(given: Partial<RelayEndpoint> = {}): RelayEndpoint {
  const { url: _, forwardHeaders: __, disableAfterMs: ___, ...rules } = anEndpoint()
  return { ...rules, kind: 'relay', relay: 'home', route: 'github', ordering: 'endpoint', timeoutMs: 30_000, ...given }
}

export function aParcel(endpoint: RelayEndpoint, given: Partial<Parcel> = {}): Parcel & { endpoint: RelayEndpoint } {
  const lane = laneOf(endpoint.ordering, given.event?.key ?? null)
  return { event: anEvent(), deliveryId: anId('dlv'), lane, attempt: 1, sentAt: t0, bornAt: t0, ...given, endpoint }
}

export type LogLine = Readonly<{ fields: Record<string, unknown>; message: string }>

/** The transport behind a port of its own. Hubs say in their path as which of the relays they come: `/0`, `/1`, … */
export async function openScene(
  t: TestContext,
  given: Partial<RelayTransportParts> = {},
  relays: readonly Relay[] = [aRelay()],
) {
  const changes: LinkChange[] = []
  const logged: LogLine[] = []
  const write = (fields: Record<string, unknown>, message: string) => logged.push({ fields, message })
  const log = { debug: write, info: write, warn: write, error: write, level: 'info' } as unknown as Logger
  const transport = new RelayTransport({
    clock: { wall: Date.now, steady: monotonic, monotonic },
    log,
    software: 'posthorn/test',
    onLink: (change) => changes.push(change),
    ...given,
  })
  const server = createServer()
  const sockets = new Set<Duplex>()
  let isShut = false
  server.on('upgrade', (request, socket, head) => {
    if (isShut) {
      socket.destroy()
      return
    }
    sockets.add(socket)
    const relay = relays[Number.parseInt(request.url?.slice(1) ?? '', 10)]
    if (relay !== undefined) transport.admit(relay, { request, socket, head })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/0`
  const hubs: ScriptedHub[] = []
  t.after(async () => {
    for (const hub of hubs) hub.ws.terminate()
    await transport.close()
    server.close()
  })
  const connect = async (...[hello, options]: [Parameters<typeof ScriptedHub.connect>[1]?, object?]) => {
    const hub = await ScriptedHub.connect(url, hello, options)
    hubs.push(hub)
    return hub
  }
  const open = async () => {
    const hub = await ScriptedHub.open(url)
    hubs.push(hub)
    return hub
  }
  /** While it is shut, no link stays and none comes. */
  const gate = {
    open() {
      isShut = false
    },
    shut() {
      isShut = true
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    },
  }
  const endpoint = aRelayEndpoint()
  return { transport, relays, url, gate, connect, open, endpoint, changes, logged, log }
}
