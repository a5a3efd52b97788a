-- The member that each hub is connected to. The epoch is the version at which the link was put: the newest has the hub.
CREATE TABLE relay_links (
  relay text PRIMARY KEY,
  member int NOT NULL,
  session text NOT NULL,
  epoch bigint NOT NULL,
  facts text NOT NULL
);

-- Raised whenever a hub comes, goes or moves. Its row is locked before any row of relay_links that changes hands.
CREATE TABLE relay_links_version (version bigint NOT NULL);
INSERT INTO relay_links_version (version) VALUES (0);

-- A link without an epoch is new, and takes the place of any other; one with an epoch has new facts. Answers the epochs;
-- NULL where another link has taken the place, and nothing at all to a member that is fenced. Relays come sorted.
CREATE FUNCTION put_links_v1(of_member int, relays text[], sessions text[], epochs bigint[], facts_of text[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  raised bigint;
  answers bigint[] := '{}';
BEGIN
  IF NOT EXISTS (SELECT 1 FROM members m WHERE m.no = of_member AND NOT m.fenced) THEN
    RETURN NULL;
  END IF;
  IF array_position(epochs, NULL) IS NOT NULL THEN
    UPDATE relay_links_version v SET version = v.version + 1 RETURNING v.version INTO raised;
  END IF;
  FOR at IN 1 .. cardinality(relays) LOOP
    IF epochs[at] IS NULL THEN
      INSERT INTO relay_links (relay, member, session, epoch, facts)
        VALUES (relays[at], of_member, sessions[at], raised, facts_of[at])
      ON CONFLICT (relay) DO UPDATE SET member = excluded.member, session = excluded.session, epoch = excluded.epoch,
        facts = excluded.facts;
      answers := array_append(answers, raised);
    ELSE
      UPDATE relay_links l SET facts = facts_of[at] WHERE l.relay = relays[at] AND l.epoch = epochs[at];
      answers := array_append(answers, CASE WHEN FOUND THEN epochs[at] END);
    END IF;
  END LOOP;
  RETURN answers;
END $$;

-- Only where no other link has taken the place. Answers whether there was any to drop.
CREATE FUNCTION drop_links_v1(relays text[], epochs bigint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  dropped boolean := false;
BEGIN
  PERFORM 1 FROM relay_links_version FOR UPDATE;
  FOR at IN 1 .. cardinality(relays) LOOP
    DELETE FROM relay_links l WHERE l.relay = relays[at] AND l.epoch = epochs[at];
    dropped := dropped OR FOUND;
  END LOOP;
  IF dropped THEN
    UPDATE relay_links_version SET version = version + 1;
  END IF;
  RETURN dropped;
END $$;

-- A member that joins again is another one, and its hubs are still connected to it.
CREATE FUNCTION move_links_v1(from_members int[], to_member int) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM 1 FROM relay_links_version FOR UPDATE;
  UPDATE relay_links SET member = to_member WHERE member = ANY (from_members);
  IF FOUND THEN
    UPDATE relay_links_version SET version = version + 1;
  END IF;
END $$;

-- Of relays that were revoked, and of members that are gone for good. Nobody sees these.
CREATE FUNCTION forget_links_v1() RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM 1 FROM relay_links_version FOR UPDATE;
  DELETE FROM relay_links l WHERE NOT EXISTS (SELECT 1 FROM members m WHERE m.no = l.member)
    OR NOT EXISTS (SELECT 1 FROM registry r WHERE r.kind = 'relay' AND r.id = l.relay);
END $$;
