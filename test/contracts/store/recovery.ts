import type { Promised } from './promises.ts'

export function recoveryContract(_promise: Promised): void {}
