"""Keys that are new with every request: the same one with another body is refused, and rightly so."""

import itertools

import schemathesis

numbers = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    key = (case.headers or {}).get("Idempotency-Key")
    if isinstance(key, str) and 0 < len(key) < 200 and key.isascii():
        case.headers["Idempotency-Key"] = f"key-{next(numbers)}"
    body = case.body
    if isinstance(body, dict) and body.get("specversion") == "1.0" and isinstance(body.get("id"), str) and body["id"]:
        body["id"] = f"id-{next(numbers)}"
