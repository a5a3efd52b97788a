import assert from 'node:assert/strict'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { folderFor } from '../cli/server.ts'
import { addressIn, introductionOf, startExample } from './example.ts'

test('examples/stripe-payments books every payment once and refuses what it has no account for', async (t) => {
  const folder = folderFor(t)
  const app = startExample(t, 'stripe-payments', { PORT: '0' }, folder)
  const url = new URL(await addressIn(app, /^Stripe may call/)).origin
  const stripe = await startExample(t, 'stripe-payments/stripe.ts', { POSTHORN_URL: url }, folder).ended
  assert.equal(stripe.code, 0, stripe.stderr)
  const answers = stripe.stdout.trimEnd().split('\n')
  assert.ok(answers.every((line) => line.includes('answered 202')))
  assert.match(answers[2] ?? '', /"duplicate":true/)

  await app.line(/^booked 1250 eur/)
  await app.line(/^booked 990 eur/)
  assert.match(await app.line(/^dead letter/), /rejected_by_handler, we have no account in xau/)
  const { code, stdout } = await app.stop('SIGTERM')
  assert.equal(code, 0, 'it ends by itself once Posthorn is closed')
  // Which of the two is asked for first is chance; one of them is told to wait.
  assert.deepEqual(stdout.match(/at attempt \d/g)?.toSorted(), ['at attempt 1', 'at attempt 2'], stdout)
  const database = new DatabaseSync(path.join(folder, 'ledger.db'), { readOnly: true })
  const rows = database.prepare('SELECT stripe_event, amount, currency FROM payments ORDER BY 1').all()
  database.close()
  assert.deepEqual(
    rows.map((row) => Object.values(row)),
    [
      ['evt_1', 1250, 'eur'],
      ['evt_2', 990, 'eur'],
    ],
  )
})

test('examples/stripe-payments says how to run it', () => {
  assert.match(introductionOf('stripe-payments'), /npm run example stripe-payments/)
})
