import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { openApp, type Pipeline } from '../../src/app.ts'
import { type Config, loadConfig } from '../../src/config.ts'
import { anId, t0 } from '../support/builders.ts'
import { ScriptedHub } from '../support/scripted-hub.ts'
import { tempFolder } from '../support/sqlite.ts'

/** A real Posthorn that hubs connect to; what it hears of them is what they bring about themselves. */
export async function openRelayApp(t: TestContext, given: Partial<Config> = {}) {
  const folder = await tempFolder()
  const env = {
    POSTHORN_PORT: '0',
    POSTHORN_DATABASE_URL: `sqlite:${join(folder.path, 'posthorn.db')}`,
    POSTHORN_ALLOW_PRIVATE: '127.0.0.1/32',
    POSTHORN_LOG_LEVEL: 'silent',
  }
  const { promise: prepared, resolve } = Promise.withResolvers<Pipeline>()
  const prepare = async (pipeline: Pipeline) => resolve(pipeline)
  const app = await openApp({ ...loadConfig({ flags: {}, env }), ...given }, { onFatal: assert.fail, prepare })
  const pipeline = await prepared
  const hubs: ScriptedHub[] = []
  t.after(async () => {
    for (const hub of hubs) hub.ws.terminate()
    await app.stop()
    await folder.remove()
  })
  const made = (name: string) =>
    pipeline.relays.create({ id: anId('rly'), name, tenant: 'default', createdAt: t0 }, null)
  const relays = { home: await made('home'), office: await made('office') }
  return {
    pipeline,
    relays,
    /** Connected, and everybody here has heard of it. */
    async connect(routes: readonly string[] = [], name: keyof typeof relays = 'home'): Promise<ScriptedHub> {
      const url = `${app.url.replace('http:', 'ws:')}/v1/relay`
      const headers = { authorization: `Bearer ${relays[name].text}` }
      const hub = await ScriptedHub.connect(url, { routes: [...routes], session: anId('rly') }, { headers })
      hubs.push(hub)
      await hub.settled()
      return hub
    },
    /** Gone, and everybody here has heard of it. */
    async leave(hub: ScriptedHub): Promise<void> {
      const { promise: gone, resolve: leave } = Promise.withResolvers<void>()
      const ignore = pipeline.notices.subscribe((notice) => {
        if (notice.kind === 'relay.changed' && !notice.connected) leave()
      })
      hub.ws.terminate()
      await gone
      ignore()
    },
  }
}
