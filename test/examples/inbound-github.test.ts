import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { posthorn, start } from '../cli/command.ts'
import { folderFor } from '../cli/server.ts'
import { addressIn, conditions, introductionOf, startExample } from './example.ts'

const handlers = path.join(import.meta.dirname, '../../examples/inbound-github/handlers.ts')
const secret = 'it-is-a-secret-to-everybody'

test('examples/inbound-github verifies, deploys once, tries again and refuses what it cannot do', async (t) => {
  const env = { ...conditions, POSTHORN_LOG_LEVEL: 'warn', RETRY_BASE_DELAY: '100ms' }
  const server = start(['start', '--port', '0', '--handlers', handlers], { cwd: folderFor(t), env })
  t.after(() => server.stop('SIGKILL'))
  const url = await addressIn(server, /^Posthorn listens on/)
  const create = ['sources', 'create', 'github-example', '--provider', 'github', '--secret', secret]
  const made = await posthorn([...create, '--key', '{$.repository.full_name}'], { env: { POSTHORN_URL: url } })
  assert.equal(made.code, 0, made.stderr)

  const github = await startExample(t, 'inbound-github', { POSTHORN_URL: url }).ended
  assert.equal(github.code, 0, github.stderr)
  const answers = github.stdout.trimEnd().split('\n')
  assert.deepEqual(
    answers.map((line) => /answered (\d+)/.exec(line)?.[1]),
    ['202', '202', '202', '202', '401'],
  )
  assert.match(answers[2] ?? '', /"duplicate":true/)
  assert.match(await server.line(/^handler: deployed/), /0d1a26e of octo-org\/shop \(Sound the horn\) at attempt 2$/)
  const dead = await deadLetter(url)
  assert.deepEqual([dead.type, dead.reason], ['github.push', 'rejected_by_handler'])
  assert.match(dead.lastError, /refs\/heads\/main of octo-org\/shop was deleted/)
})

test('examples/inbound-github says how to run it', () => {
  const text = introductionOf('inbound-github')
  assert.match(text, /npm start -- --handlers examples\/inbound-github\/handlers\.ts/)
  assert.match(text, /bin\/posthorn sources create github-example --provider github/)
})

type DeadLetter = Readonly<{ type: string; reason: string; lastError: string }>

/** The lane is in order: the second push ends after the first, and so after the line that was waited for. */
async function deadLetter(url: string): Promise<DeadLetter> {
  for (;;) {
    const response = await fetch(`${url}/v1/dead-letters`)
    const { items } = (await response.json()) as { items: DeadLetter[] }
    if (items[0] !== undefined) return items[0]
  }
}
