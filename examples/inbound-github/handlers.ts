// What is done with GitHub's webhooks. It runs inside the server: npm start -- --handlers examples/inbound-github/handlers.ts
import { defineHandlers, fatal, retryAfter } from 'posthorn'

type Push = Readonly<{
  ref: string
  after: string
  repository: Readonly<{ full_name: string }>
  commits: readonly Readonly<{ message: string }>[]
}>

/** Which commit is live, by repository. In earnest this is a table in your database. */
const live = new Map<string, string>()
let isBusy = true

export default defineHandlers({
  'github.ping': (event) => console.log(`handler: GitHub says ${event.data.zen}`),

  'github.push': {
    handler: async (event, { attempt }) => {
      const { ref, after, repository, commits } = event.data as Push
      if (ref !== 'refs/heads/main') return
      // Nobody can deploy what was deleted: a dead letter at once.
      if (/^0+$/.test(after)) throw fatal(`${ref} of ${repository.full_name} was deleted`)
      // At least once: the same push may come again, and must change nothing then.
      if (live.get(repository.full_name) === after) return
      if (isBusy) {
        isBusy = false
        throw retryAfter('500ms', 'another deployment is running')
      }
      live.set(repository.full_name, after)
      const what = commits.map(({ message }) => message).join('; ')
      console.log(`handler: deployed ${after.slice(0, 7)} of ${repository.full_name} (${what}) at attempt ${attempt}`)
    },
    // Pushes of one repository in their order; the key is what the source makes of the payload.
    ordering: 'key',
    retry: 'processing',
  },
})
