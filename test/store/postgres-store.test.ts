import { storeContract } from '../contracts/store.ts'
import { openPostgresUnderTest } from '../support/postgres-store.ts'

storeContract('postgres', openPostgresUnderTest)
