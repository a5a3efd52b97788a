/** Every error that leaves a port has one of these codes; the edges translate them to statuses and exit codes. */
export const errorCodes = [
  'store_unavailable',
  'store_full',
  'store_read_only',
  'store_corrupt',
  'store_locked',
  'store_missing',
  'store_too_new',
  'store_wrong_key',
  'config_invalid',
  'intake_full',
  'loop_detected',
  'not_found',
  'conflict',
  'invalid',
  'shutting_down',
] as const
export type ErrorCode = (typeof errorCodes)[number]

/** An error with a code that a person or a program can act on. The message is a full sentence that says what to do. */
export class PosthornError extends Error {
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'PosthornError'
    this.code = code
  }
}
