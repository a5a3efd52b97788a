import { describe } from 'node:test'
import { appendContract } from './store/append.ts'
import { bornEndedContract } from './store/born-ended.ts'
import { catalogueContract } from './store/catalogue.ts'
import { chainContract } from './store/chains.ts'
import { claimContract } from './store/claim.ts'
import { clusterContract, linkContract } from './store/cluster.ts'
import { deadLetterCountContract } from './store/dead-letter-counts.ts'
import { deadLetterContract } from './store/dead-letters.ts'
import { laneContract } from './store/lanes.ts'
import { originContract } from './store/origins.ts'
import { type OpenStore, promises } from './store/promises.ts'
import { recordContract } from './store/record.ts'
import { recoveryContract } from './store/recovery.ts'
import { registryContract } from './store/registry.ts'
import { replayOutcomeContract } from './store/replay-outcomes.ts'
import { replayContract } from './store/replays.ts'
import { suspectContract } from './store/suspects.ts'
import { upkeepContract } from './store/upkeep.ts'

/** The promises of the store port: every adapter passes this suite unchanged. */
export function storeContract(name: string, open: OpenStore): void {
  const promise = promises(open)
  describe(`${name}: members`, () => clusterContract(promise))
  describe(`${name}: links of hubs`, () => linkContract(promise))
  describe(`${name}: append`, () => appendContract(promise))
  describe(`${name}: origins`, () => originContract(promise))
  describe(`${name}: born ended`, () => bornEndedContract(promise))
  describe(`${name}: claim and commit`, () => claimContract(promise))
  describe(`${name}: suspects`, () => suspectContract(promise))
  describe(`${name}: lanes`, () => laneContract(promise))
  describe(`${name}: chains`, () => chainContract(promise))
  describe(`${name}: catalogue`, () => catalogueContract(promise))
  describe(`${name}: the record`, () => recordContract(promise))
  describe(`${name}: the registry`, () => registryContract(promise))
  describe(`${name}: dead letters`, () => deadLetterContract(promise))
  describe(`${name}: counts of dead letters`, () => deadLetterCountContract(promise))
  describe(`${name}: replays`, () => replayContract(promise))
  describe(`${name}: outcomes of replays`, () => replayOutcomeContract(promise))
  describe(`${name}: recovery`, () => recoveryContract(promise))
  describe(`${name}: upkeep`, () => upkeepContract(promise))
}
