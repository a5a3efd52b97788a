import type { Endpoint } from '../core/endpoint.ts'

/** What other members reach, and this one does not: hubs that are connected to them. */
export interface OtherHubs {
  /** Whether another member could take a delivery of this endpoint. */
  serves(endpoint: Endpoint): boolean

  /** Calls back when a hub has come to another member, gone from it or moved on. */
  onOtherHub(listener: (relayId: string) => void): void
}
