import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Hub, type HubEvent, type HubSettings, openHub } from '../../src/hub/hub.ts'
import type { HubTiming } from '../../src/hub/hub-settings.ts'
import { openLog } from '../../src/log.ts'
import { openScriptedEdge, type ScriptedEdge, type ScriptedEdgeOptions } from '../support/scripted-edge.ts'
import { type Answer, openScriptedEndpoint, type Script, type ScriptedEndpoint } from '../support/scripted-endpoint.ts'

export const testLog = openLog({ level: 'silent', format: 'json' })
/** As in life, but for how long a hub waits before it comes back, and for a target before it leaves. */
export const soon: Partial<HubTiming> = { backoffMsMin: 5, backoffMsMax: 20, graceMs: 1_000 }

export type WatchedHub = Hub &
  Readonly<{
    events: readonly HubEvent[]
    event<K extends HubEvent['kind']>(kind: K): Promise<Extract<HubEvent, { kind: K }>>
  }>

/** The hubs, edges, targets and folders of one test; cleared away in the reverse order in which they came. */
export class HubScene {
  readonly #stack = new AsyncDisposableStack()

  constructor(t: TestContext) {
    t.after(() => this.#stack.disposeAsync())
  }

  async edge(options: ScriptedEdgeOptions = {}): Promise<ScriptedEdge> {
    return this.#stack.use(await openScriptedEdge(options))
  }

  async target(script: Script | readonly Answer[] = [{}]): Promise<ScriptedEndpoint> {
    return this.#stack.use(await openScriptedEndpoint(script))
  }

  async newFile(): Promise<string> {
    const folder = await mkdtemp(join(tmpdir(), 'posthorn-test-'))
    this.#stack.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
    return join(folder, 'hub.db')
  }

  /** A hub that has been started. */
  async hub(given: Partial<HubSettings> & Readonly<{ edge: string }>): Promise<WatchedHub> {
    const hub = await this.openHub(given)
    hub.start()
    return hub
  }

  async openHub(given: Partial<HubSettings> & Readonly<{ edge: string }>): Promise<WatchedHub> {
    const events: HubEvent[] = []
    const waiting: { kind: string; resolve: (event: HubEvent) => void }[] = []
    let taken = 0
    const hub = openHub({
      key: 'phr_test',
      routes: new Map([['main', 'http://127.0.0.1:9/hook']]),
      memoryFile: given.memoryFile ?? (await this.newFile()),
      software: 'posthorn/test',
      log: testLog,
      onEvent: (event) => {
        events.push(event)
        for (const waiter of waiting.filter(({ kind }) => kind === event.kind)) {
          waiting.splice(waiting.indexOf(waiter), 1)
          taken = events.length
          waiter.resolve(event)
        }
      },
      ...given,
      timing: { ...soon, ...given.timing },
    })
    this.#stack.defer(() => hub.stop())
    const event = <K extends HubEvent['kind']>(kind: K): Promise<Extract<HubEvent, { kind: K }>> => {
      const at = events.findIndex((one, index) => index >= taken && one.kind === kind)
      if (at >= 0) {
        taken = at + 1
        return Promise.resolve(events[at] as Extract<HubEvent, { kind: K }>)
      }
      return new Promise((resolve) => waiting.push({ kind, resolve: resolve as (event: HubEvent) => void }))
    }
    return { start: () => hub.start(), stop: () => hub.stop(), ended: hub.ended, events, event }
  }
}

export function routeTo(target: ScriptedEndpoint, name = 'main'): ReadonlyMap<string, string> {
  return new Map([[name, target.url]])
}
