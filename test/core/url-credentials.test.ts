import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutCredentials } from '../../src/core/url-credentials.ts'

test('a URL is shown without its user and password, and anything else as it is', () => {
  for (const url of ['http://ada:s3cret@host:1/p?q', 'http://ada:s3c@ret@host:1/p?q', 'http://s3cret@host:1/p?q']) {
    assert.equal(withoutCredentials(url), 'http://•••@host:1/p?q')
  }
  for (const text of ['http://host/a@b', 'http://host?x=a@b', 'sqlite:./a@b.db', 'a@b', '']) {
    assert.equal(withoutCredentials(text), text)
  }
})
