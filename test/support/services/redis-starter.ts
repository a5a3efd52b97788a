// Starts a Redis, says its port and waits to be killed.
import { startRedis } from './redis-server.ts'

console.log((await startRedis()).port)
