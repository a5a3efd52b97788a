import { Buffer } from 'node:buffer'
import type { TestContext } from 'node:test'
import { timings } from '../../src/transports/relay/timings.ts'
import { type AbsenceScene, absenceContract, transportContract } from '../contracts/transport.ts'
import { Arrivals } from '../support/arrivals.ts'
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
