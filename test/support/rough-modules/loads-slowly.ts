import type { Handler } from '../../../src/engines/engine.ts'

console.log('loading')
await new Promise((resolve) => setTimeout(resolve, 500))

const handler: Handler = ({ data }) => fetch(data.to, { method: 'POST' })
export default handler
