CREATE FUNCTION store_time_v1() RETURNS bigint LANGUAGE sql VOLATILE
  AS $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- Makes a process a member. `before`: what it was until now, and what it became by calls whose answer it has not got. Others
-- may have taken over what those owned, but it may have claimed since: that is looked at again.
CREATE FUNCTION join_v1(of_id text, of_host text, of_pid int, of_version text, lease_ms int, before text[])
RETURNS TABLE (member int, now bigint) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
  at bigint := store_time_v1();
  joined int;
  earlier int[];
BEGIN
  -- Those of a day ago: no write of theirs can be in doubt for so long.
  DELETE FROM marks k USING members m WHERE k.member = m.no AND m.swept AND m.lease_ends_at < at - 86400000;
  DELETE FROM members m WHERE m.swept AND m.lease_ends_at < at - 86400000;
  INSERT INTO members (id, host, pid, version, joined_at, beat_at, beating_since, lease_ends_at)
    VALUES (of_id, of_host, of_pid, of_version, at, at, at, at + lease_ms) RETURNING no INTO joined;
  SELECT array_agg(m.no) INTO earlier FROM members m WHERE m.id = ANY (before);
  IF earlier IS NOT NULL THEN
    UPDATE members m SET fenced = true, swept = false WHERE m.no = ANY (earlier);
    UPDATE leader l SET lease_ends_at = 0 WHERE l.member = ANY (earlier);
    PERFORM move_links_v1(earlier, joined);
  END IF;
  RETURN QUERY SELECT joined, at;
END $$;

-- Renews the lease of a member and tells of the others. Its own lease must have lasted: only who has beaten for as long as
-- a lease may fence others, or after an outage of the database everybody would fence everybody. A member that works takes
-- the lead from one that does not. `owing`: fenced members whose work has to be taken over.
CREATE FUNCTION beat_v1(of_member int, lease_ms int, of_handlers text[], of_working boolean) RETURNS TABLE (
  now bigint, is_lost boolean, member_ids text[], working_ids text[], leader_id text, registry bigint, owing int[], handlers_elsewhere text[]
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  at bigint := store_time_v1();
  since bigint;
  leads int;
BEGIN
  UPDATE members m SET beat_at = at, handlers = of_handlers, working = of_working, lease_ends_at = at + lease_ms,
      beating_since = CASE WHEN m.lease_ends_at < at OR m.beating_since > at THEN at ELSE m.beating_since END
    WHERE m.no = of_member AND NOT m.fenced RETURNING m.beating_since INTO since;
  IF NOT FOUND THEN
    RETURN QUERY SELECT at, true, '{}'::text[], '{}'::text[], NULL::text, (SELECT v.version FROM registry_version v), '{}'::int[], '{}'::text[];
    RETURN;
  END IF;
  -- The clock of the server was set back: who is gone has a lease no longer than it would have now.
  UPDATE members m SET lease_ends_at = at + lease_ms WHERE m.no IN (
    SELECT o.no FROM members o WHERE o.lease_ends_at > at + 2 * lease_ms AND NOT o.fenced ORDER BY o.no FOR NO KEY UPDATE SKIP LOCKED);
  IF at - since >= lease_ms THEN
    UPDATE members m SET fenced = true WHERE m.no IN (
      SELECT o.no FROM members o WHERE o.lease_ends_at < at AND NOT o.fenced ORDER BY o.no FOR NO KEY UPDATE SKIP LOCKED);
  END IF;
  UPDATE leader l SET member = of_member, working = of_working, lease_ends_at = at + lease_ms
    WHERE l.member = of_member OR l.lease_ends_at < at OR (of_working AND NOT l.working)
      OR NOT EXISTS (SELECT 1 FROM members m WHERE m.no = l.member AND NOT m.fenced);
  SELECT l.member INTO leads FROM leader l;
  RETURN QUERY SELECT at, false,
    (SELECT array_agg(m.id ORDER BY m.no) FROM members m WHERE NOT m.fenced),
    (SELECT array_agg(m.id ORDER BY m.no) FROM members m WHERE NOT m.fenced AND m.working),
    (SELECT m.id FROM members m WHERE m.no = leads),
    (SELECT v.version FROM registry_version v),
    (SELECT array_agg(m.no) FROM members m WHERE m.fenced AND NOT m.swept),
    (SELECT array_agg(DISTINCT h.id) FROM members m CROSS JOIN unnest(m.handlers) AS h (id)
      WHERE NOT m.fenced AND m.no <> of_member);
END $$;

-- Others take its work at once.
CREATE FUNCTION leave_v1(of_member int) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  UPDATE members SET fenced = true WHERE no = of_member;
  UPDATE leader SET lease_ends_at = 0 WHERE member = of_member;
END $$;

-- Takes over what fenced members own, a piece at a time. Answers the endpoints that have something due now; NULL: nothing
-- was left. What was taken in by a clock that is ahead is due now, not when that time comes.
CREATE FUNCTION take_over_v1(from_members int[], most int) RETURNS int[]
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off AS $$
DECLARE
  at bigint := store_time_v1();
  found_endpoints int[];
BEGIN
  WITH freed AS (
    UPDATE live l SET owner = NULL, version = l.version + 1, interruptions = l.interruptions + 1,
      due_at = least(coalesce(l.retry_after, l.replayed_at, l.received_at), at)
    WHERE l.ctid = ANY (ARRAY(SELECT o.ctid FROM live o WHERE o.owner IS NOT NULL AND o.owner = ANY (from_members)
      ORDER BY o.due_at LIMIT most FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING l.endpoint
  )
  SELECT array_agg(DISTINCT f.endpoint) INTO found_endpoints FROM freed f;
  IF found_endpoints IS NULL THEN
    UPDATE members m SET swept = true WHERE m.no = ANY (from_members) AND m.fenced
      AND NOT EXISTS (SELECT 1 FROM live o WHERE o.owner IS NOT NULL AND o.owner = m.no);
  END IF;
  RETURN found_endpoints;
END $$;
