// Inbound webhooks: GitHub's pushes are verified, kept, and processed by a handler that is tried again when it fails.
//
//   npm start -- --handlers examples/inbound-github/handlers.ts        Posthorn, with the handlers in it
//   bin/posthorn sources create github-example --provider github --secret it-is-a-secret-to-everybody \
//     --key '{$.repository.full_name}'                                 what GitHub may call: POST /in/github-example
//   npm run example inbound-github                                     plays GitHub: signs webhooks and sends them
//
// In earnest GitHub does the last step: set the webhook's address to https://<your host>/in/github-example, its content
// type to application/json, and its secret to the source's.
import { createHmac, randomUUID } from 'node:crypto'

const { POSTHORN_URL = 'http://127.0.0.1:4800', GITHUB_SECRET = 'it-is-a-secret-to-everybody' } = process.env
const repository = { id: 186853002, full_name: 'octo-org/shop', private: true, default_branch: 'main' }
const sender = { login: 'octocat', id: 583231, type: 'User' }

const push = {
  ref: 'refs/heads/main',
  before: '6113728f27ae82c7b1a177c8d03f9e96e0adf246',
  after: '0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c',
  repository,
  pusher: { name: 'octocat', email: 'octocat@github.example' },
  sender,
  commits: [{ id: '0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c', message: 'Sound the horn', added: ['horn.ts'] }],
}
const deleted = { ...push, before: push.after, after: '0'.repeat(40), commits: [], deleted: true }

await send('ping', { zen: 'Keep it logically awesome.', hook_id: 1, repository, sender })
const id = randomUUID()
await send('push', push, id)
// GitHub may send a webhook again: the same delivery id makes no second event.
await send('push', push, id)
await send('push', deleted)
await send('push', push, randomUUID(), 'a-wrong-secret')

async function send(event: string, payload: unknown, delivery: string = randomUUID(), secret: string = GITHUB_SECRET) {
  const body = JSON.stringify(payload)
  const response = await fetch(`${POSTHORN_URL}/in/github-example`, {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'GitHub-Hookshot/044aadd',
      'x-github-event': event,
      'x-github-delivery': delivery,
      'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    },
  }).catch(() => fail(`No Posthorn answers at ${POSTHORN_URL}. Start it, or set POSTHORN_URL.`))
  console.log(`github: ${event} was answered ${response.status} ${await response.text()}`)
  const isExpected = secret === GITHUB_SECRET ? response.ok : response.status === 401
  if (!isExpected) fail('This answer is unexpected. Is there a source github-example with this secret? See above.')
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}
