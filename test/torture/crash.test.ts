import { test } from 'node:test'
import { crashTest } from '../support/crash-test.ts'

test('kill -9 two hundred and fifty times under load: nothing lost, order kept', (t) =>
  crashTest(t, { kills: 250, senders: 24 }))
