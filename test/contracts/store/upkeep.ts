import type { Promised } from './promises.ts'

export function upkeepContract(_promise: Promised): void {}
