import type { Figure } from '../bench.ts'
import { BenchPostgres } from '../postgres.ts'
import { Posthorn } from '../posthorn.ts'
import { againstForwarder, toSink } from './end-to-end.ts'

/** Figure 15: the way of an event through the server, kept in Postgres. */
export const postgresEndToEnd: Figure = {
  name: 'postgres-end-to-end',
  title: 'end to end on Postgres, accepted over HTTP → delivered to a loopback sink, against a no-store forwarder',
  async measure(bench) {
    const { rig } = bench
    const postgres = await BenchPostgres.start(rig)
    const database = { url: await postgres.createDatabase('posthorn'), pid: postgres.pid }
    const title = 'posthorn on Postgres'
    const posthorn = await Posthorn.start(rig, { folder: rig.tempDir(), title, postgres: database })
    return {
      ...(await againstForwarder(bench, await toSink(bench, posthorn), { must: 0.2, goal: 0.3 })),
      notes: [
        'Postgres with its defaults is included in the CPU of Posthorn. Peers with their databases, measured the same way: Outpost 0.066, Svix 0.046.',
      ],
    }
  },
}
