// Emits dist/ for publishing: JavaScript and declarations by tsc, the SQL files that the code reads from beside it, and
// what `import 'posthorn'` and `require('posthorn')` load.
import { spawnSync } from 'node:child_process'
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { nodeProblem, supportedNode } from '../src/cli/node-version.ts'

const root = path.dirname(import.meta.dirname)
const source = path.join(root, 'src')
const target = path.join(root, 'dist')

rmSync(target, { recursive: true, force: true })
const tsc = path.join(root, 'node_modules/typescript/bin/tsc')
const compiled = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
if (compiled.status !== 0) process.exit(compiled.status ?? 1)

for (const file of globSync('**/*.sql', { cwd: source })) {
  const copy = path.join(target, file)
  mkdirSync(path.dirname(copy), { recursive: true })
  copyFileSync(path.join(source, file), copy)
}

// Worker threads are named by URL, which tsc does not rewrite as it does imports.
for (const file of globSync('**/*.js', { cwd: target })) {
  const emitted = path.join(target, file)
  const text = readFileSync(emitted, 'utf8')
  const rewritten = text.replace(/new URL\('(\.[^']+)\.ts', import\.meta\.url\)/g, "new URL('$1.js', import.meta.url)")
  if (rewritten !== text) writeFileSync(emitted, rewritten)
}

// The version of Node is checked before anything else is loaded: an older one would die of a module that it lacks.
const check = `const supportedNode = ${JSON.stringify(supportedNode)}
${nodeProblem}
const problem = nodeProblem(process.versions.node)
if (problem !== null) throw new Error(problem)
`
const names = Object.keys(await import('../src/index.ts'))
const loaded = `export const { ${names.join(', ')} } = await import('./index.js')\n`
writeFileSync(path.join(target, 'import.js'), check + loaded)
writeFileSync(path.join(target, 'require.cjs'), `${check}module.exports = require('./index.js')\n`)
