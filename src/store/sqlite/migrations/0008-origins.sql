-- Where an event was read (an outbox row, a Kafka record), so that reading it again finds it. Goes with the event.
CREATE TABLE origins (
  scope TEXT NOT NULL,
  id TEXT NOT NULL,
  event_no INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,
  PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX origins_of_event ON origins (event_no);
