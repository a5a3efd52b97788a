import type { Caller } from '../core/api-key.ts'
import { defaultTenant } from '../core/event.ts'
import { notFound } from './problem.ts'

/**
 * What of the whole a caller may see and touch. Every route asks here, and nothing else decides about tenants: what
 * belongs to another tenant is answered like what does not exist.
 */
export class Scope {
  /** null: all of them. */
  readonly tenant: string | null

  constructor({ tenant }: Pick<Caller, 'tenant'>) {
    this.tenant = tenant
  }

  /** What has no tenant belongs to those who see all of them. */
  sees(tenant: string | null): boolean {
    return this.tenant === null || this.tenant === tenant
  }

  /** The thing, if it is there and within the scope. */
  found<T extends Readonly<{ tenant: string | null }>>(thing: T | null | undefined, what: string, id: string): T {
    if (thing === null || thing === undefined || !this.sees(thing.tenant)) throw notFound(what, id)
    return thing
  }

  /** The condition of a list. Who names another tenant names something that is not there. */
  filter(asked?: string): Readonly<{ tenant?: string }> {
    if (asked !== undefined && !this.sees(asked)) throw notFound('tenant', asked)
    const tenant = asked ?? this.tenant
    return tenant === null ? {} : { tenant }
  }

  /** Whose a new thing is, when its maker named this tenant or none. */
  owner(asked?: string | null): string {
    const tenant = asked ?? this.tenant ?? defaultTenant
    if (!this.sees(tenant)) throw notFound('tenant', tenant)
    return tenant
  }
}
