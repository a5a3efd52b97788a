-- The class of what a handler threw, and what it said is unavailable: of its own, not only inside the error's text.
ALTER TABLE attempts ADD COLUMN error_class TEXT;
ALTER TABLE attempts ADD COLUMN dependency TEXT;
