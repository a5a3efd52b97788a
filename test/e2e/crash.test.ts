import { test } from 'node:test'
import { crashTest } from '../support/crash-test.ts'

test('kill -9 twenty times under load: nothing lost, order kept, same bytes and ids, repeats bounded', (t) =>
  crashTest(t, { kills: 20, senders: 12 }))
