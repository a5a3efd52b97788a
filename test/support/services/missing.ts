import { isCi } from '../ci.ts'

/** A service cannot be had on this machine. A service that is here and does not work is another error. */
export class ServiceMissing extends Error {}

/** Why a service is missing, for `skip`; null when `find` finds it. In continuous integration it throws instead. */
export function whyMissing(find: () => unknown): string | null {
  try {
    find()
    return null
  } catch (error) {
    if (isCi() || !(error instanceof ServiceMissing)) throw error
    return error.message
  }
}
