// The application's own books, in its own database.
import { DatabaseSync } from 'node:sqlite'

export class Ledger {
  readonly #database: DatabaseSync

  constructor(file: string) {
    this.#database = new DatabaseSync(file)
    this.#database.exec(
      'CREATE TABLE IF NOT EXISTS payments (stripe_event TEXT PRIMARY KEY, amount INTEGER, currency TEXT)',
    )
  }

  /** Answers whether it was booked now: the same event again changes nothing. */
  book(stripeEvent: string, amount: number, currency: string): boolean {
    const { changes } = this.#database
      .prepare('INSERT INTO payments VALUES (?, ?, ?) ON CONFLICT DO NOTHING')
      .run(stripeEvent, amount, currency)
    return changes === 1
  }

  close(): void {
    this.#database.close()
  }
}
