import { hostname } from 'node:os'
import {
  type Beat,
  type ClusterStore,
  type HubLink,
  type Joined,
  type LinkKey,
  type LinkPut,
  type Member,
  plainNews,
} from '../cluster-store.ts'

const id = 'single'

/**
 * One process owns a SQLite file: it is the only member, leads, and cannot be fenced. The store's time is the wall clock's
 * when it was opened, and goes on from there whatever happens to that clock.
 */
export class SingleMember implements ClusterStore {
  readonly #startedAt = Date.now()
  readonly #openedAt = Date.now() - performance.now()
  readonly #version: string
  readonly #registryVersion: () => Promise<number>
  readonly #links = new Map<string, HubLink>()
  #linksVersion = 0
  #handlers: readonly string[] = []

  constructor(version: string, registryVersion: () => Promise<number>) {
    this.#version = version
    this.#registryVersion = registryVersion
  }

  async join(): Promise<Joined> {
    return { id, now: this.#now(), lease: null }
  }

  async beat({ handlers, isWorking } = plainNews): Promise<Beat> {
    this.#handlers = handlers
    const versions = { registryVersion: await this.#registryVersion(), linksVersion: this.#linksVersion }
    const working = isWorking ? [id] : []
    return { now: this.#now(), members: [id], working, leader: id, ...versions, isLost: false, handlersElsewhere: [] }
  }

  async leave(): Promise<void> {}

  hint(): void {}

  onHint(): void {}

  async listHeld(): Promise<readonly []> {
    return []
  }

  async listMembers(): Promise<readonly Member[]> {
    const facts = { host: hostname(), pid: process.pid, version: this.#version, since: this.#startedAt }
    return [{ id, ...facts, isLeader: true, beatMs: null, handlers: this.#handlers }]
  }

  async putLinks(links: readonly LinkPut[]): Promise<readonly (number | null)[]> {
    return links.map(({ epoch, ...link }) => {
      if (epoch !== null && this.#links.get(link.relayId)?.epoch !== epoch) return null
      const kept = epoch ?? ++this.#linksVersion
      this.#links.set(link.relayId, { ...link, member: id, epoch: kept })
      return kept
    })
  }

  async dropLinks(links: readonly LinkKey[]): Promise<void> {
    for (const { relayId, epoch } of links) {
      if (this.#links.get(relayId)?.epoch !== epoch) continue
      this.#links.delete(relayId)
      this.#linksVersion += 1
    }
  }

  async listLinks(): Promise<readonly HubLink[]> {
    return [...this.#links.values()]
  }

  #now(): number {
    return Math.floor(this.#openedAt + performance.now())
  }
}
