import { z } from 'zod'
import type { GroupBy } from '../core/delivery.ts'
import { endpointName } from '../core/endpoint.ts'
import { reasons } from '../core/outcome.ts'
import type { Catalogue } from '../dispatch/catalogue.ts'
import type { DeadLetterGroup } from '../store/replay-store.ts'
import { idShown, instantShown } from './answers.ts'
import { instant } from './shown.ts'

// Dead letters by what they have in common, as the API shows them.

const groupFields = {
  count: z.int().min(1),
  endpoints: z.int().min(1),
  reasons: z.array(z.enum(reasons)),
  first: instantShown,
  last: instantShown,
  sample: idShown('dlv').meta({ description: 'The newest of them.' }),
}

const group = z.union([
  z.strictObject({
    error: z.string().meta({ description: 'With numbers, ids and hosts folded. The reason if there was no error.' }),
    ...groupFields,
  }),
  z.strictObject({
    endpoint: z.string(),
    name: z.string().nullable().meta({ description: 'Its description or host. Null if it was deleted.' }),
    ...groupFields,
  }),
  z.strictObject({ type: z.string(), ...groupFields }),
  z.strictObject({ reason: z.enum(reasons), ...groupFields }),
])

export const groupsAnswer = z
  .strictObject({ groups: z.array(group) })
  .meta({ id: 'DeadLetterGroups', description: 'The largest group first.' })

export function groupShown(
  { common, count, endpoints, reasons, firstAt, lastAt, sample }: DeadLetterGroup,
  by: GroupBy,
  catalogue: Catalogue,
) {
  const endpoint = by === 'endpoint' ? catalogue.get(common) : null
  return {
    [by]: common,
    ...(by === 'endpoint' && { name: endpoint === null ? null : endpointName(endpoint) }),
    count,
    endpoints,
    reasons,
    first: instant(firstAt),
    last: instant(lastAt),
    sample,
  }
}
