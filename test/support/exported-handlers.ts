import type { Handler } from '../../src/engines/engine.ts'

// Handlers that an engine imports, because a function cannot be sent to another process.

export const returns: Handler = async () => {}

export const throws: Handler = async (event, { attempt, deliveryId }) => {
  throw new Error(`attempt ${attempt} of ${deliveryId} for ${event.id}`)
}

export const counts: Handler = () => {
  const calls = globalThis as { exportedHandlerCalls?: number }
  calls.exportedHandlerCalls = (calls.exportedHandlerCalls ?? 0) + 1
}
