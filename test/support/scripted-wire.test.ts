import { Buffer } from 'node:buffer'
import type { EndpointKind } from '../../src/core/endpoint.ts'
import { type AbsenceScene, absenceContract, transportContract } from '../contracts/transport.ts'
import { Arrivals, type Ending } from './arrivals.ts'
import { anEndpoint, t0 } from './builders.ts'
import { answered, ScriptedWire, unreachable } from './scripted-wire.ts'

const reports = { ok: answered(200), fail: answered(503), break: unreachable('ECONNRESET') }

for (const kind of ['http', 'handler'] as const) {
  transportContract(`the scripted wire for ${kind}`, async () => openContractScene(kind))
  absenceContract(`the scripted wire for ${kind}`, async () => openContractScene(kind))
}

function openContractScene(kind: EndpointKind): AbsenceScene {
  const arrivals = new Arrivals()
  const wire: ScriptedWire = new ScriptedWire(
    ({ deliveryId, attempt, event }) => {
      const one = wire.tries.at(-1)
      const answer = (ending: Ending): void => one?.answer(reports[ending])
      arrivals.add({ deliveryId, attempt, body: Buffer.from(event.body).toString(), answer })
      return 'hold'
    },
    () => t0,
    kind,
  )
  return {
    transport: wire,
    anEndpoint,
    next: () => arrivals.next(),
    graceMs: 0,
    leave: async (endpoint) => wire.leave(endpoint),
    come: async (endpoint) => wire.come(endpoint),
  }
}
