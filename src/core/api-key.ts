export const roles = ['admin', 'send', 'read'] as const
export type Role = (typeof roles)[number]

/** Who may do what. The key itself is shown once and never kept. */
export type ApiKey = Readonly<{
  id: string
  name: string
  role: Role
  /** It sees, sends and changes only this tenant; null: all. */
  tenant: string | null
  /** SHA-256 of the key, in hex. */
  hash: string
  createdAt: number
}>

/** Who asks: the key of the configuration, a kept one, or this machine. */
export type Caller = Readonly<{ name: string; role: Role; tenant: string | null }>

/** Whether a role may do what another role is named for: admins may everything, the others only their own. */
export function mayAct(role: Role, needed: Role): boolean {
  return role === 'admin' || role === needed
}
