/** What a caller of each operation should know, for the OpenAPI document; by `operationId`. */
export const descriptions: Readonly<Record<string, string>> = {
  sendEvent:
    'Posthorn routes the event to every endpoint of its tenant that wants its type. Endpoints receive `data` byte for byte, inside an envelope. Repeat the request with the same `Idempotency-Key` until you get an answer.',
  sendEvents:
    'Takes a JSON array or one JSON object per line. If one event is not valid, none is accepted, and the problem names every wrong field. Give single events an `idempotencyKey`; the header is not for batches.',
  sendRawEvent:
    'The body is sent on as it came, with its content type and content encoding. CloudEvents in binary and structured mode bring their own type. Unknown query parameters are refused.',
  listEvents: 'Filter by tenant, type and time of receipt. Go on with `next` as the `cursor`.',
  getEvent: 'With the newest 500 deliveries and, if a source received it, how the request came in.',
  getEventBody: 'With the content type and content encoding that the event has.',
  listen:
    'Events named `event.accepted`, `attempt.settled`, `delivery.ended` and others, each as JSON. Nothing is kept for a reader: one that is too slow gets `dropped` with the number of events it missed.',
  createEndpoint:
    'Events that arrive from now on are delivered there. `warnings` names what is allowed and probably not meant, such as a second endpoint with the same URL and types.',
  listEndpoints: 'Filter by tenant, kind and status.',
  changeEndpoint:
    'Deliveries that wait follow the new settings. A change of `ordering` is for events accepted after it. Fields of another kind of endpoint are refused.',
  deleteEndpoint: 'The endpoint of a registered handler cannot be deleted while the handler is registered.',
  getEndpoint: 'With the state of its breaker, its hold and its last error in `condition`.',
  pauseEndpoint: 'Events are still routed to it. Deliveries keep their age, and expire after `maxAge`.',
  resumeEndpoint: 'Also enables an endpoint that Posthorn disabled. What waits is delivered.',
  getEndpointSecret: 'Receivers verify `webhook-signature` with it.',
  rotateEndpointSecret:
    'For as long as `keepOldFor` says, requests carry both signatures, so that receivers can change the secret without a gap.',
  testEndpoint:
    'Sends one event to this endpoint and answers with the attempt. It keeps to the rate limit, and ignores the concurrency and the breaker.',
  getEndpointStats: 'Counts may be some seconds old: `countedAt` says from when they are.',
  createSource:
    'Point the provider at the `path` of the answer. The provider decides which of `secret`, `hmac` and `url` are needed.',
  listSources: 'Filter by tenant and provider.',
  changeSource: 'The name and the provider of a source cannot be changed.',
  deleteSource: 'The provider gets a 404 from now on.',
  getSource: 'By id or by name.',
  getSourceSecret: 'null for the provider `none`.',
  rotateSourceSecret:
    'Signatures of the old secret are accepted for as long as `keepOldFor` says. `secret` is required if the provider chooses it.',
  receiveWebhook:
    'Needs no API key. Posthorn verifies the signature of the provider, keeps the exact bytes and answers 202. A repeat of a known event id is a 202 with `duplicate`.',
  answerChallenge: 'For providers that check an address before they use it.',
  createRelay: 'Start the hub with the key: `posthorn relay --key …`.',
  listRelays: 'With the round trip time, the version of the hub, and how much waits.',
  getRelay: 'By id or by name.',
  rotateRelayKey: 'The hub has to be started again with the new key.',
  revokeRelay: 'Deliveries of its endpoints wait until a relay of the same name exists, or they expire.',
  listDeliveries:
    'Filter by status, endpoint, event, type, tenant, key, reason, error and time of receipt. A pending delivery says what it waits for.',
  getDelivery: 'With the newest 500 attempts, and what each endpoint answered.',
  retryDelivery: 'Passes by backoff, breaker and hold, but not a pause, nor the order of a lane.',
  cancelDelivery: 'A delivery that is being attempted right now is a 409.',
  cancelDeliveries:
    'Cancels what waits and matches. With `dryRun`, only counts. What is being attempted right now is left alone.',
  listDeadLetters: 'With `group`, counts instead of single deliveries; then there is no `cursor`.',
  discardDeadLetters:
    'Deletes for good what matched when the request began. With `dryRun`, only counts. The log says who discarded what.',
  createReplay:
    'A job that survives restarts. With `dryRun`, only counts, and says which endpoints take nothing at the moment. The job counts what became of the deliveries that it requeued.',
  listReplays: 'With the counts of each.',
  getReplay:
    '`finished` means that everything is requeued, `settled` that every outcome is known: `requeued` = `delivered` + `failedAgain` + `waiting`.',
  pauseReplay: 'Deliveries that were requeued already are still attempted.',
  resumeReplay: 'The job goes on after the last delivery that it requeued.',
  cancelReplay: 'Outcomes of what was requeued are still counted.',
  recoverEndpoint:
    'A replay. `failed` requeues dead letters, `missing` delivers events that the endpoint never got, `all` sends everything again.',
  listBreakers: 'With the last error, how much waits, and when the next probe is.',
  resetBreaker: 'Use it when the endpoint works again and you do not want to wait for the next probe.',
  createKey:
    'Roles: `admin` does everything, `send` sends events, `read` reads. A key with a tenant sees that tenant only.',
  listKeys: 'With the last time of use.',
  deleteKey: 'Streams that were opened with it are closed.',
  getUpkeep: '`skipped` says why nothing was deleted, such as a clock that cannot be trusted.',
  listMembers:
    'With SQLite there is one. With Postgres, one that was killed is listed until its lease has lapsed and another has taken its work.',
  runUpkeep: 'Does what the hourly run does: expires, prunes and shrinks the database.',
  pauseDispatch:
    'Attempts under way finish and no further one begins, at all processes that share the database and also after a restart, until somebody resumes.',
  resumeDispatch: 'Attempts begin at once.',
  getStatus:
    'Rates, backlog, dead letters of the last 24 hours by reason, the endpoints that need attention, and the next command to type. It costs nothing that grows with the backlog.',
  getConfig: 'For admins without a tenant.',
  getHealth: 'Use it as a liveness probe: it does not look at the database.',
  getReadiness: 'Use it as a readiness probe: 503 while events cannot be accepted, with the reasons.',
  getOpenApi: 'Generated from what the server checks.',
  getMetrics: 'In the text format of Prometheus.',
}
