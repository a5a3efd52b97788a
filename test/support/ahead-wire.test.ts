import { Buffer } from 'node:buffer'
import { timings } from '../../src/transports/relay/timings.ts'
import { type AheadScene, aheadTransportContract } from '../contracts/ahead-transport.ts'
import { absenceContract, transportContract } from '../contracts/transport.ts'
import { AheadWire } from './ahead-wire.ts'
import { Arrivals, type Ending } from './arrivals.ts'
import { aRelayEndpoint } from './builders.ts'
import { answered, unreachable } from './scripted-wire.ts'

const reports = { ok: answered(200), fail: answered(503), break: unreachable('ECONNRESET') }

transportContract('the ahead wire', openContractScene)
absenceContract('the ahead wire', openContractScene)
aheadTransportContract('the ahead wire', openContractScene)

async function openContractScene(): Promise<AheadScene> {
  const arrivals = new Arrivals()
  const wire: AheadWire = new AheadWire(({ deliveryId, attempt, event }) => {
    const run = [...wire.open].at(-1)
    const answer = (ending: Ending): void => run?.answer(reports[ending])
    arrivals.add({ deliveryId, attempt, body: Buffer.from(event.body).toString(), answer })
    return 'hold'
  })
  return {
    transport: wire,
    anEndpoint: (given) => aRelayEndpoint({ ordering: 'none', ...given }),
    aLane: () => aRelayEndpoint({ ordering: 'endpoint' }),
    next: () => arrivals.next(),
    graceMs: timings.ackGraceMs,
    leave: async (endpoint) => wire.lose(endpoint),
    come: async (endpoint) => wire.come(endpoint),
  }
}
