import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { test } from 'node:test'
import fc from 'fast-check'
import { scanObject } from '../../src/intake/json-scan.ts'
import { errorsOf, eventSchema, readEvent } from '../../src/server/event-reader.ts'

const word = fc.oneof(
  fc.string({ maxLength: 8 }),
  fc.constantFrom('', 'order.created', 'a..b', 'ä'.repeat(200), 'x'.repeat(256), 'x'.repeat(257), 'acme', '*'),
)
const anything = fc.oneof(word, fc.constantFrom(null, true, 5, [], {}))
const headerName = fc.constantFrom('x-a', 'X-A', 'host', 'webhook-id', '__proto__', 'a b', 'authorization')
const headers = fc.oneof(anything, fc.array(fc.tuple(headerName, anything), { maxLength: 4 }).map(jsonObject))
const name = fc.constantFrom('type', 'data', 'key', 'tenant', 'idempotencyKey', 'typ', '__proto__', 'constructor')
const member = fc.oneof(fc.tuple(name, anything), fc.tuple(fc.constant('headers'), headers))
const good = fc.constantFrom<[string, unknown][]>(
  [
    ['type', 'a'],
    ['data', 1],
  ],
  [],
)

/** The last of each name wins, as own properties: `__proto__` too. */
function jsonObject(entries: readonly (readonly [string, unknown])[]): object {
  return Object.fromEntries(entries)
}

test('the quick way and the schema agree on which events are good, and what they say', () => {
  let accepted = 0
  fc.assert(
    fc.property(good, fc.array(member, { maxLength: 4 }), (first, rest) => {
      const bytes = Buffer.from(JSON.stringify(jsonObject([...rest, ...first])))
      const scanned = scanObject(bytes)
      if (scanned.kind !== 'object') return
      const parsed = eventSchema.safeParse(JSON.parse(bytes.toString()))
      const event = readEvent(bytes, scanned.members)
      assert.equal('type' in event, parsed.success)
      if (!('type' in event) || !parsed.success) {
        assert.ok(errorsOf(bytes, scanned.members).length > 0)
        return
      }
      accepted++
      const { type, tenant = null, key, headers, idempotencyKey, data } = parsed.data
      assert.deepEqual(JSON.parse(bytes.toString('utf8', event.data.start, event.data.end)), data)
      assert.deepEqual(
        { type: event.type, tenant: event.tenant, key: event.key, idempotencyKey: event.idempotencyKey },
        { type, tenant, key: key ?? null, idempotencyKey: idempotencyKey ?? null },
      )
      assert.deepEqual({ ...event.headers }, { ...headers })
    }),
    { numRuns: 5_000 },
  )
  assert.ok(accepted > 100, `only ${accepted} good events were tried`)
})
