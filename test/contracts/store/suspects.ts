import type { Promised } from './promises.ts'

export function suspectContract(_promise: Promised): void {}
