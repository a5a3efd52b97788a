import { workerData } from 'node:worker_threads'

// A thread in each worker that ends it when the parent is gone. The worker's own loop may be blocked and never hear so.

const lookEveryMs = 500

// By its parent's id: in a container whose first process reaps nobody, a dead parent still answers signals.
setInterval(() => {
  if (process.ppid !== workerData) process.kill(-process.pid, 'SIGKILL')
}, lookEveryMs)
