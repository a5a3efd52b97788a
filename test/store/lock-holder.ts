// Another program: holds SQLite's write lock on a file until its input ends.
import { DatabaseSync } from 'node:sqlite'

const db = new DatabaseSync(process.argv[2]!, { timeout: 10_000 })
db.exec('BEGIN IMMEDIATE')
console.log('held')
process.stdin
  .on('end', () => {
    db.exec('COMMIT')
    db.close()
  })
  .resume()
