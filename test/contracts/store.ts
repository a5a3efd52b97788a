import { describe } from 'node:test'
import { appendContract } from './store/append.ts'
import { catalogueContract } from './store/catalogue.ts'
import { claimContract } from './store/claim.ts'
import { laneContract } from './store/lanes.ts'
import { type OpenStore, promises } from './store/promises.ts'
import { recordContract } from './store/record.ts'

/** The promises of the store port: every adapter passes this suite unchanged. */
export function storeContract(name: string, open: OpenStore): void {
  const promise = promises(open)
  describe(`${name}: append`, () => appendContract(promise))
  describe(`${name}: claim and commit`, () => claimContract(promise))
  describe(`${name}: lanes`, () => laneContract(promise))
  describe(`${name}: catalogue`, () => catalogueContract(promise))
  describe(`${name}: the record`, () => recordContract(promise))
}
