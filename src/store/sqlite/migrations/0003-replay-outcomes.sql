-- What became of the deliveries that a replay requeued.

-- The replay that requeued it last, unless a person retried it since. While the delivery waits, its outcome is not counted.
ALTER TABLE deliveries ADD COLUMN replay_no INTEGER;
CREATE INDEX deliveries_of_replay ON deliveries (replay_no) WHERE replay_no IS NOT NULL;

ALTER TABLE replays RENAME COLUMN replayed TO requeued;
ALTER TABLE replays RENAME COLUMN failed TO skipped;
-- Outcomes of what it requeued. NULL: the replay is older than this count.
ALTER TABLE replays ADD COLUMN delivered INTEGER;
ALTER TABLE replays ADD COLUMN failed_again INTEGER;
-- When it had ended and every outcome was known.
ALTER TABLE replays ADD COLUMN settled_at INTEGER;
