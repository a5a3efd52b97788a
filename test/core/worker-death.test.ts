import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { failedRun } from '../../src/core/handler-errors.ts'
import { type Death, deathText, isLastWord } from '../../src/core/worker-death.ts'

const death: Death = { signal: null, code: null, lastWords: null, uncaught: null }

describe('a death', () => {
  const texts: readonly (readonly [Partial<Death>, string])[] = [
    [{ signal: 'SIGKILL' }, 'the worker was killed by SIGKILL'],
    [{ code: 3 }, 'the worker exited with code 3'],
    [{ code: 0 }, 'the worker exited with code 0'],
    [{}, 'the worker died'],
    [{ lastWords: 'spawn EMFILE' }, 'the worker died: spawn EMFILE'],
    [{ signal: 'SIGABRT', lastWords: 'FATAL ERROR: x' }, 'the worker was killed by SIGABRT: FATAL ERROR: x'],
    [{ signal: 'SIGKILL', uncaught: failedRun('boom') }, 'the worker ended with an uncaught error: boom'],
  ]
  for (const [given, text] of texts) {
    test(`is told as: ${text}`, () => assert.equal(deathText({ ...death, ...given }), text))
  }

  const lines: readonly (readonly [string, boolean])[] = [
    ['FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory', true],
    ['# Fatal error in , line 0', true],
    ["thread 'main' panicked at src/lib.rs:3:5:", true],
    ['double free or corruption (out)', true],
    ["node: ../deps/uv/src/unix/core.c:1: uv_close: Assertion `!uv__is_closing(handle)' failed.", true],
    [' 4: 0xf1e6d1 v8::internal::V8::FatalProcessOutOfMemory(v8::Isolate*, char const*) [node]', false],
    ['----- Native stack trace -----', false],
    ['order 4711 is handled', false],
  ]
  for (const [line, isFatal] of lines) {
    test(`is${isFatal ? '' : ' not'} announced by: ${line}`, () => assert.equal(isLastWord(line), isFatal))
  }
})
