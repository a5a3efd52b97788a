import { PosthornError } from '../../core/errors.ts'
import {
  changedMeanwhile,
  nameTaken,
  type RegistryItems,
  type RegistryKind,
  splitSecrets,
  uniqueName,
} from '../../core/registry.ts'
import type { RegistryEntry } from '../registry-store.ts'
import type { SecretBox } from '../secret-box.ts'
import { type Queryable, rowsOf } from './driver.ts'
import type { Write } from './write-stream.ts'

type Put = Readonly<{ kind: RegistryKind; item: RegistryItems[RegistryKind]; expectedVersion: number }>
type Name = Readonly<{ kind: RegistryKind; id: string }>
/** What spoke against a put. */
export type PutAnswer = 'put' | 'stale' | 'name_taken'

/** Oldest first: ids sort by age. */
export async function listEntries<K extends RegistryKind>(
  on: Queryable,
  schema: string,
  box: SecretBox,
  kind: K,
): Promise<readonly RegistryEntry<K>[]> {
  const sql = `SELECT id, version, settings, secrets FROM ${schema}.registry WHERE kind = $1 ORDER BY id COLLATE "C"`
  const rows = await rowsOf(on, sql, [kind])
  return rows.map(([id, version, settings, secrets]) => {
    const open = secrets === null ? {} : JSON.parse(box.open(secrets as Uint8Array, id as string))
    const item = { ...JSON.parse(settings as string), ...open } as RegistryItems[K]
    return { item, version: version as number }
  })
}

export function putEntryWrite(box: SecretBox): Write<Put, PutAnswer> {
  return {
    name: 'put_entry_v1',
    fits: () => 1,
    values: ([put]) => (put === undefined ? [] : valuesOf(put, box)),
    results: (_puts, answer) => [(answer ?? 'put') as PutAnswer],
  }
}

export const removeEntryWrite: Write<Name, null> = {
  name: 'remove_entry_v1',
  fits: () => 1,
  values: ([name]) => [name?.kind, name?.id],
  results: () => [null],
}

/** Why a put was refused, in words for the person who asked for it. */
export function putProblem(answer: PutAnswer, { kind, item }: Put): PosthornError | null {
  switch (answer) {
    case 'put':
      return null
    case 'stale':
      return new PosthornError('conflict', changedMeanwhile(kind, item.id))
    case 'name_taken':
      return new PosthornError('conflict', nameTaken(kind, uniqueName(kind, item)?.name ?? ''))
  }
}

function valuesOf({ kind, item, expectedVersion }: Put, box: SecretBox): readonly unknown[] {
  const { settings, secrets } = splitSecrets(kind, item)
  const unique = uniqueName(kind, item)
  const sealed = secrets === null ? null : Buffer.from(box.seal(JSON.stringify(secrets), item.id))
  const tenant = kind === 'endpoint' ? (item as RegistryItems['endpoint']).tenant : null
  const name = [unique?.scope ?? null, unique?.name ?? null]
  return [kind, item.id, expectedVersion, ...name, JSON.stringify(settings), sealed, tenant]
}
