/** Flags of ours that a worker must not have: they debug, test, measure or watch this process, or name its program. */
const ours =
  /^(?:--(?:inspect|test|experimental-test|watch|cpu-prof|heap-prof|prof|heapsnapshot|run|check|eval|print|interactive|input-type|experimental-default-type)|-[ceip]+$)/

/** The Node flags of a worker: ours, such as loaders and limits of memory, without those that are for us alone. */
export function workerFlags(execArgv: readonly string[]): string[] {
  const kept: string[] = []
  let wasLeftOut = false
  for (const arg of execArgv) {
    // The value of the flag before it.
    const isValue = !arg.startsWith('-')
    if (!isValue) wasLeftOut = ours.test(arg)
    if (!wasLeftOut) kept.push(arg)
  }
  return kept
}

/** A debugger listens on one port: workers must not wait for it, or for each other. */
export function workerEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: options } = env
  if (options === undefined) return env
  return { ...env, NODE_OPTIONS: options.replace(/(^|\s)--inspect\S*/g, '$1') }
}
