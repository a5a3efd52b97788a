// Makes a backup, and says when it has begun to write.
import { backupFile } from '../../src/store/sqlite/backup-file.ts'

const [file, target] = process.argv.slice(2)
const backup = backupFile(file!, target!)
console.log('copying')
await backup
