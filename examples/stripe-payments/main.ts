// Payments: Stripe's events are verified, kept, and booked once each, by handlers that say what their errors mean.
// Posthorn runs inside of this process, as a library, and serves /in/stripe for Stripe to call.
//
//   npm run example stripe-payments                    the application; it listens on port 4800, or on PORT
//   npm run example stripe-payments/stripe.ts          plays Stripe, in another terminal
//   bin/posthorn dlq list                              what was refused: the payment in a currency we do not have
//
// In your own project: npm install posthorn, and `import … from 'posthorn'` is all that is needed. For Stripe itself,
// point a webhook at https://<your host>/in/stripe and give its signing secret to the source.
import { openPosthorn } from 'posthorn'
import { type Bank, paymentHandlers } from './handlers.ts'
import { Ledger } from './ledger.ts'

const { STRIPE_SECRET = 'whsec_it_is_a_secret_to_everybody', PORT = '4800' } = process.env

/** Busy at the first try of every second payment. */
const asked = new Set<string>()
const bank: Bank = async (eventId) => {
  const isFirst = !asked.has(eventId)
  asked.add(eventId)
  return isFirst && asked.size % 2 === 0 ? 'busy' : 'ok'
}

const ledger = new Ledger('./ledger.db')
const posthorn = await openPosthorn({
  database: 'sqlite:./posthorn.db',
  serve: { port: Number(PORT) },
  handlers: paymentHandlers(ledger, bank),
}).catch((error) => {
  // Another server has the port or the database, say. Its message tells what to do.
  console.error(`Posthorn could not start: ${error.message}`)
  console.error('If a server runs already, stop it, or choose another port: PORT=4810 npm run example stripe-payments')
  process.exit(1)
})

/** A source is made once; after that Posthorn knows it. */
const source = { name: 'stripe', provider: 'stripe', secret: STRIPE_SECRET }
const made = await fetch(`${posthorn.url}/v1/sources`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(source),
})
if (!made.ok && made.status !== 409) throw new Error(`the source was refused: ${await made.text()}`)
console.log(`Stripe may call ${posthorn.url}/in/stripe`)

posthorn.on('attempt.settled', ({ status, deliveryId, reason, error }) => {
  if (status === 'failed') console.log(`dead letter ${deliveryId}: ${reason}, ${error}`)
})

/** What is under way is finished; what waits is on disk, and goes on at the next start. */
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    await posthorn.close()
    ledger.close()
  })
}
