import assert from 'node:assert/strict'
import { test } from 'node:test'
import { quotaProblem } from '../../src/core/quota.ts'

const quota = { things: 'keys', max: 10, tenantMax: 3, setting: 'POSTHORN_TENANT_KEYS_MAX' }
const of = (tenant: string | null, count: number) => Array.from({ length: count }, () => tenant)

test('a tenant has its own limit, and no other tenant is shut out by it', () => {
  assert.equal(quotaProblem(quota, 'acme', of('acme', 2)), null)
  assert.match(quotaProblem(quota, 'acme', of('acme', 3)) ?? '', /acme has 3 keys.*POSTHORN_TENANT_KEYS_MAX/)
  assert.equal(quotaProblem(quota, 'globex', of('acme', 3)), null)
})

test('the last tenth of all is for the operator, whose limit is that of all', () => {
  const many = [...of('a', 3), ...of('b', 3), ...of('c', 3)]
  assert.match(quotaProblem(quota, 'd', many) ?? '', /all tenants.*limit of 9/)
  assert.equal(quotaProblem(quota, null, many), null)
  assert.match(quotaProblem(quota, null, [...many, null]) ?? '', /10 keys/)
})

test('the limit of a tenant does not hold for the operator', () => {
  assert.equal(quotaProblem(quota, null, of('acme', 5)), null)
})
