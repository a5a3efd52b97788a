// What is done with Stripe's events. How an error is thrown says what becomes of the event.
import { defineHandlers, fatal, infrastructure, retryAfter, unavailable } from 'posthorn'
import type { Ledger } from './ledger.ts'

type PaymentIntent = Readonly<{ amount: number; currency: string }>
type StripeEvent = Readonly<{ id: string; data: Readonly<{ object: PaymentIntent }> }>

/** What the bank answers when the receipt of a payment is asked for; another service, with moods of its own. */
export type Bank = (eventId: string, signal: AbortSignal) => Promise<'ok' | 'busy' | 'down'>

export function paymentHandlers(ledger: Ledger, bank: Bank) {
  return defineHandlers({
    'stripe.payment_intent.succeeded': {
      handler: async (event, { signal, attempt }) => {
        const { id, data } = event.data as StripeEvent
        const { amount, currency } = data.object
        // No number of tries will teach us this currency: a dead letter now, with the reason rejected_by_handler.
        if (currency !== 'eur') throw fatal(`we have no account in ${currency}`)
        const answer = await bank(id, signal)
        // It said when to come again. Spends an attempt; other payments are not held up.
        if (answer === 'busy') throw retryAfter('200ms', 'the bank asked us to wait')
        // Tried again by the policy; with a breaker it would count against it.
        if (answer === 'down') throw unavailable('bank')
        if (bookOrWait(ledger, id, amount, currency)) console.log(`booked ${amount} ${currency} at attempt ${attempt}`)
      },
      retry: { strategy: 'exponential', baseDelay: '1s', maxDelay: '1m', jitter: 0.2, maxAttempts: 8 },
      concurrency: 4,
      timeout: '10s',
    },
  })
}

/** Our own database being down is nobody's fault but ours: the event waits, and no attempt is spent. */
function bookOrWait(ledger: Ledger, id: string, amount: number, currency: string): boolean {
  try {
    return ledger.book(id, amount, currency)
  } catch (error) {
    throw infrastructure('the ledger cannot be written', { cause: error })
  }
}
