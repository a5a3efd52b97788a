// Outbound webhooks: a shop tells its customer about every order, signed, retried and in order per order.
//
//   npm start                                         Posthorn
//   npm run example outbound-app                      the shop and its customer
//   curl -X POST http://127.0.0.1:3000/orders -d '{"item":"horn","price":12.50}'
//
// In your own project: npm install standardwebhooks, for the customer's side. The shop needs nothing but fetch.
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { openCustomer } from './customer.ts'
import { openShop, subscribe } from './shop.ts'

const { POSTHORN_URL, POSTHORN_API_KEY, SHOP_PORT = '3000', CUSTOMER_PORT = '3001' } = process.env
const posthorn = { url: POSTHORN_URL ?? 'http://127.0.0.1:4800', apiKey: POSTHORN_API_KEY }

let secret = ''
const customer = openCustomer(
  () => secret,
  (order, attempt) => console.log(`customer: got ${JSON.stringify(order)} at attempt ${attempt}, signature ok`),
)
const hookUrl = `${await listen(customer, CUSTOMER_PORT)}/hooks`
console.log(`customer: listens on ${hookUrl}`)

secret = await subscribe(posthorn, hookUrl).catch((error) => fail(`Posthorn at ${posthorn.url}: ${error.message}`))
const shopUrl = await listen(openShop(posthorn), SHOP_PORT)
console.log(`shop: listens on ${shopUrl}`)
console.log(`order something: curl -X POST ${shopUrl}/orders -d '{"item":"horn","price":12.50}'`)

async function listen(server: Server, port: string): Promise<string> {
  server.listen(Number(port), '127.0.0.1')
  await once(server, 'listening').catch((error) =>
    fail(`port ${port} cannot be used: ${error.message}; set SHOP_PORT and CUSTOMER_PORT`),
  )
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}
