-- The same numbers and the same meaning as in ../postgres; one contract suite runs on both.
--
-- Addresses, hashes and uuids are lower-case text, so that a row can be read and compared in the sqlite3 shell as it stands.
-- uint256 does not fit any integer type: amounts and validity windows are decimal text and never compared in SQL.
-- Columns ending in _ms are Unix milliseconds in database time.

CREATE TABLE payments (
    id                 TEXT PRIMARY KEY NOT NULL,
    version            INTEGER NOT NULL CHECK (version >= 1),
    status             TEXT NOT NULL CHECK (
        status IN ('reserved', 'signed', 'mined', 'settled', 'settled_elsewhere', 'failed', 'refused')),
    network            INTEGER NOT NULL CHECK (network BETWEEN 1 AND 9007199254740991),
    verifying_contract TEXT NOT NULL,
    authorizer         TEXT NOT NULL,
    auth_nonce         TEXT NOT NULL,
    fingerprint        TEXT NOT NULL,
    pay_to             TEXT NOT NULL,
    amount             TEXT NOT NULL,
    valid_after        TEXT NOT NULL,
    valid_before       TEXT NOT NULL,
    -- The second from which the authorization can no longer execute, clamped to what a 64-bit integer holds.
    expires_at         INTEGER NOT NULL CHECK (expires_at >= 0),
    reason             TEXT,
    message            TEXT,
    tx_hash            TEXT,
    block_number       INTEGER CHECK (block_number >= 0),
    last_answer        TEXT CHECK (last_answer IN ('pending', 'success')),
    -- Set while an answer is on its way to its caller: what last_answer goes back to if the caller is gone.
    answer_before      TEXT CHECK (answer_before IN ('none', 'pending')),
    -- Answers said so far: a caller that waited while another was told is no repeat.
    answers            INTEGER NOT NULL DEFAULT 0 CHECK (answers >= 0),
    answer_holder      TEXT,
    answer_until_ms    INTEGER,
    created_at_ms      INTEGER NOT NULL,
    updated_at_ms      INTEGER NOT NULL,
    CHECK ((answer_holder IS NULL) = (answer_until_ms IS NULL)),
    CHECK (answer_before IS NULL OR (answer_holder IS NOT NULL AND last_answer IS NOT NULL))
) STRICT;

-- Rule 5: one live payment per replay key. The list mirrors Status::holds_key.
CREATE UNIQUE INDEX payments_live_key ON payments (network, verifying_contract, authorizer, auth_nonce)
    WHERE status NOT IN ('failed', 'refused');
-- Every payment under a key, and every payment of a payer.
CREATE INDEX payments_by_payer ON payments (authorizer, auth_nonce);
CREATE INDEX payments_by_auth_nonce ON payments (auth_nonce);
CREATE INDEX payments_by_age ON payments (created_at_ms, id);
CREATE INDEX payments_expiring ON payments (expires_at) WHERE status = 'reserved';
CREATE INDEX payments_unfinished ON payments (network) WHERE status IN ('signed', 'mined');

CREATE TABLE lanes (
    network     INTEGER NOT NULL CHECK (network BETWEEN 1 AND 9007199254740991),
    address     TEXT NOT NULL,
    nonce_floor INTEGER NOT NULL CHECK (nonce_floor >= 0),
    PRIMARY KEY (network, address)
) STRICT;

-- A slot is one lane nonce given away. There is no counter: the next nonce is the highest slot plus one.
CREATE TABLE slots (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    network       INTEGER NOT NULL,
    lane          TEXT NOT NULL,
    lane_nonce    INTEGER NOT NULL CHECK (lane_nonce >= 0),
    payment_id    TEXT REFERENCES payments (id),
    outcome       TEXT CHECK (outcome IN ('ours', 'foreign')),
    created_at_ms INTEGER NOT NULL,
    closed_at_ms  INTEGER,
    FOREIGN KEY (network, lane) REFERENCES lanes (network, address),
    UNIQUE (network, lane, lane_nonce)
) STRICT;

-- A payment occupies one lane nonce at a time: sign_slot refuses a second open slot, and this index holds even if it did not.
CREATE UNIQUE INDEX slots_one_open_per_payment ON slots (payment_id) WHERE outcome IS NULL;
CREATE INDEX slots_by_payment ON slots (payment_id);
CREATE INDEX slots_open ON slots (network, lane, lane_nonce) WHERE outcome IS NULL;

CREATE TABLE attempts (
    slot_id                  INTEGER NOT NULL REFERENCES slots (id),
    sequence                 INTEGER NOT NULL CHECK (sequence BETWEEN 0 AND 4294967295),
    kind                     TEXT NOT NULL CHECK (kind IN ('payment', 'filler')),
    raw                      BLOB NOT NULL,
    hash                     TEXT NOT NULL UNIQUE,
    max_fee_per_gas          TEXT NOT NULL,
    max_priority_fee_per_gas TEXT NOT NULL,
    gas_limit                INTEGER NOT NULL CHECK (gas_limit >= 0),
    created_at_ms            INTEGER NOT NULL,
    PRIMARY KEY (slot_id, sequence)
) STRICT;

-- The world may hold any bytes we ever signed, so no row that remembers them may change or go.
CREATE TRIGGER attempts_no_update BEFORE UPDATE ON attempts
BEGIN
    SELECT RAISE(ABORT, 'attempts is append-only');
END;
CREATE TRIGGER attempts_no_delete BEFORE DELETE ON attempts
BEGIN
    SELECT RAISE(ABORT, 'attempts is append-only');
END;

CREATE TABLE idempotency_keys (
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    -- The final answer as it was written; NULL until there is one.
    answer      TEXT,
    bound_at    INTEGER NOT NULL CHECK (bound_at >= 0),
    PRIMARY KEY (scope, key)
) STRICT;

CREATE TABLE keepers (
    network  INTEGER PRIMARY KEY NOT NULL CHECK (network BETWEEN 1 AND 9007199254740991),
    holder   TEXT NOT NULL,
    epoch    INTEGER NOT NULL CHECK (epoch >= 1),
    until_ms INTEGER NOT NULL
) STRICT;
