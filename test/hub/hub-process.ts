// A hub in a process of its own, which can be killed: tells on stdout that it runs.
import { openHub } from '../../src/hub/hub.ts'
import { openLog } from '../../src/log.ts'

const [edge = '', target = '', memoryFile = ''] = process.argv.slice(2)
const hub = openHub({
  edge,
  key: 'phr_test',
  routes: new Map([['main', target]]),
  memoryFile,
  software: 'posthorn/test',
  log: openLog({ level: 'silent', format: 'json' }),
  timing: { backoffMsMin: 5, backoffMsMax: 20 },
})
hub.start()
process.on('SIGTERM', () => hub.stop())
console.log('running')
console.log((await hub.ended).kind)
