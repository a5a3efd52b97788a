/** What is shared by all tenants has a limit in all and a limit for each; the last tenth is the operator's. */
export type Quota = Readonly<{
  /** In the plural: `keys`. */
  things: string
  max: number
  tenantMax: number
  /** Where an operator can change `tenantMax`. */
  setting: string
}>

const operatorShare = 0.1

/**
 * Why there can be no further one, in a sentence; null when there can. `tenant` is who asks for it; null: the operator,
 * whose limit is the limit in all. `tenants` are those of the things that are there.
 */
export function quotaProblem(
  { things, max, tenantMax, setting }: Quota,
  tenant: string | null,
  tenants: readonly (string | null)[],
): string | null {
  if (tenant === null) return tenants.length < max ? null : `There are ${max} ${things}, and that is the limit.`
  if (tenants.filter((other) => other === tenant).length >= tenantMax) {
    return `The tenant ${tenant} has ${tenantMax} ${things}, and that is the limit (${setting}).`
  }
  const open = Math.floor(max * (1 - operatorShare))
  return tenants.length < open ? null : `The ${things} of all tenants have reached their limit of ${open}.`
}
