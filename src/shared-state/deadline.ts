/** The work's answer, or an error if there is none in time. What the work does then is nobody's concern any more. */
export async function within<T>(callMs: number, name: string, work: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`${name} did not answer within ${callMs} ms`)), callMs)
  work.catch(() => {})
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
