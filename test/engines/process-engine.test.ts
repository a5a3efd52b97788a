import type { TestContext } from 'node:test'
import { engineContract } from '../contracts/engine.ts'
import { processEngine } from './process-scene.ts'

engineContract('the process engine', (t: TestContext) => processEngine(t, { workersMax: 3 }).engine)
