import { Buffer } from 'node:buffer'
import type { TestContext } from 'node:test'
import { timings } from '../../src/transports/relay/timings.ts'
import { type AheadScene, aheadTransportContract } from '../contracts/ahead-transport.ts'
import { type AbsenceScene, absenceContract, transportContract } from '../contracts/transport.ts'
import { HubScene, routeTo } from '../hub/hub-scene.ts'
import { Arrivals, type Ending } from '../support/arrivals.ts'
import type { Answer } from '../support/scripted-endpoint.ts'
import { down, ok, type ScriptedHub } from '../support/scripted-hub.ts'
import { openWatch } from '../support/watch.ts'
import { aRelay, aRelayEndpoint, openScene } from './relay-scene.ts'

transportContract('relay', openContractScene)
absenceContract('relay', openContractScene)

async function openContractScene(t: TestContext): Promise<AbsenceScene> {
  const { look, until } = openWatch()
  const relay = aRelay()
  const { transport, connect } = await openScene(t, { onLink: look }, [relay])
  const arrivals = new Arrivals()
  let hub = await connect()
  let listening = listen(hub, arrivals)
  t.after(() => listening)
  return {
    transport,
    anEndpoint: (given) => aRelayEndpoint({ ordering: 'none', ...given }),
    next: () => arrivals.next(),
    graceMs: timings.ackGraceMs,
    async leave() {
      hub.ws.close()
      await until(() => transport.linkOf(relay.id) === null)
    },
    async come() {
      hub = await connect()
      listening = listen(hub, arrivals)
    },
  }
}

/** Until the link is closed. */
async function listen(hub: ScriptedHub, arrivals: Arrivals): Promise<void> {
  for (;;) {
    const frame = await hub.next('deliver').catch(() => null)
    if (frame === null) return
    const { delivery: deliveryId, attempt } = frame.head
    const body = Buffer.from(frame.body).toString()
    arrivals.add({
      deliveryId,
      attempt,
      body,
      answer(ending) {
        if (ending === 'break') hub.ws.terminate()
        else hub.ack(frame, ending === 'ok' ? ok : down)
      },
    })
  }
}

aheadTransportContract('relay', openAheadScene)

const answers: Readonly<Record<Ending, Answer>> = { ok: {}, fail: { status: 503 }, break: 'drop' }

/** With a real hub, which keeps the order, and a target behind it. */
async function openAheadScene(t: TestContext): Promise<AheadScene> {
  // Made first, so that its hub is gone before the transport waits for what that has.
  const scene = new HubScene(t)
  const { look, until } = openWatch()
  const relay = aRelay()
  const { transport, url, gate } = await openScene(t, { onLink: look }, [relay])
  const arrivals = new Arrivals()
  const target = await scene.target(({ headers, body }) => {
    const { promise, resolve } = Promise.withResolvers<Answer>()
    arrivals.add({
      deliveryId: String(headers['posthorn-delivery']),
      attempt: Number(headers['posthorn-attempt']),
      body: body.toString(),
      answer: (ending) => resolve(answers[ending]),
    })
    return promise
  })
  await scene.hub({ edge: url, routes: routeTo(target, 'github'), timing: { graceMs: 0 } })
  const isConnected = () => transport.linkOf(relay.id) !== null
  await until(isConnected)
  return {
    transport,
    anEndpoint: (given) => aRelayEndpoint({ ordering: 'none', ...given }),
    aLane: () => aRelayEndpoint({ ordering: 'endpoint' }),
    next: () => arrivals.next(),
    graceMs: timings.ackGraceMs,
    async leave() {
      gate.shut()
      await until(() => !isConnected())
    },
    async come() {
      gate.open()
      await until(isConnected)
    },
  }
}
