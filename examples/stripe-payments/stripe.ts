// Plays Stripe: signs events with Stripe's own package and sends them, one of them twice.
import Stripe from 'stripe'

const { POSTHORN_URL = 'http://127.0.0.1:4800', STRIPE_SECRET = 'whsec_it_is_a_secret_to_everybody' } = process.env
const stripe = new Stripe('sk_test_none')

await send(payment('evt_1', 1250, 'eur'))
await send(payment('evt_2', 990, 'eur'))
await send(payment('evt_2', 990, 'eur'))
await send(payment('evt_3', 500, 'xau'))

function payment(id: string, amount: number, currency: string): object {
  return {
    id,
    object: 'event',
    api_version: '2026-01-28',
    created: Math.floor(Date.now() / 1000),
    type: 'payment_intent.succeeded',
    livemode: false,
    data: { object: { id: `pi_${id}`, object: 'payment_intent', amount, currency, status: 'succeeded' } },
  }
}

async function send(event: object): Promise<void> {
  const payload = JSON.stringify(event)
  const response = await fetch(`${POSTHORN_URL}/in/stripe`, {
    method: 'POST',
    body: payload,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'stripe-signature': stripe.webhooks.generateTestHeaderString({ payload, secret: STRIPE_SECRET }),
    },
  }).catch(() => {
    console.error(`No Posthorn answers at ${POSTHORN_URL}. Start the example first, or set POSTHORN_URL.`)
    process.exit(1)
  })
  console.log(`stripe: was answered ${response.status} ${await response.text()}`)
}
