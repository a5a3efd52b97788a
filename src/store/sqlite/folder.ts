import { mkdirSync } from 'node:fs'
import { PosthornError } from '../../core/errors.ts'

/** Makes the folder itself but not the folders above it: a wrong path is more likely than a wanted tree. */
export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder)
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    throw new PosthornError('store_missing', `The folder ${folder} for the database cannot be made: ${message}.`, {
      cause,
    })
  }
}
