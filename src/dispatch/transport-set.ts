import type { Endpoint, EndpointKind } from '../core/endpoint.ts'
import type { Report } from '../core/outcome.ts'
import type { AheadTransport, Parcel, Transport } from '../transports/transport.ts'

/** The transports by the kind of endpoint that they reach. */
export class TransportSet {
  readonly #byKind = new Map<EndpointKind, Transport>()
  readonly #aheadByKind = new Map<EndpointKind, AheadTransport>()

  constructor(transports: readonly Transport[]) {
    for (const transport of transports) {
      this.#byKind.set(transport.kind, transport)
      if (canSendAhead(transport)) this.#aheadByKind.set(transport.kind, transport)
    }
  }

  /** An endpoint of a kind that nobody brings is held, like one whose other end is not there. */
  serves(endpoint: Endpoint): boolean {
    return this.#byKind.get(endpoint.kind)?.serves(endpoint) ?? false
  }

  /** What keeps the order of a lane at the other end; null: here every delivery waits for its turn. */
  aheadOf(endpoint: Endpoint): AheadTransport | null {
    return this.#aheadByKind.get(endpoint.kind) ?? null
  }

  deliver(parcel: Parcel, signal: AbortSignal): Promise<Report> {
    const { kind } = parcel.endpoint
    const transport = this.#byKind.get(kind)
    if (transport !== undefined) return transport.deliver(parcel, signal)
    return Promise.resolve({ kind: 'interrupted', message: `nothing here reaches endpoints of kind ${kind}` })
  }

  onServing(listener: (endpointId: string) => void): void {
    for (const transport of this.#byKind.values()) transport.onServing(listener)
  }

  onRoom(listener: (endpointId: string) => void): void {
    for (const transport of this.#aheadByKind.values()) transport.onRoom(listener)
  }
}

function canSendAhead(transport: Transport): transport is AheadTransport {
  return 'sendAhead' in transport
}
