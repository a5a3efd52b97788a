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
    # A batch has a limit of deliveries too, which depends on the endpoints that there are.
    if isinstance(body, list) and 1_000 < len(body) <= 10_000:
        del body[1_000:]
    # In the header and in the body it has to be the same.
    if isinstance(body, dict) and isinstance(key, str):
        body.pop("idempotencyKey", None)
    for item in body if isinstance(body, list) else [body]:
        if isinstance(item, dict) and isinstance(item.get("idempotencyKey"), str) and item["idempotencyKey"]:
            item["idempotencyKey"] = f"key-{next(numbers)}"
    if isinstance(body, dict) and body.get("specversion") == "1.0" and isinstance(body.get("id"), str) and body["id"]:
        body["id"] = f"id-{next(numbers)}"
