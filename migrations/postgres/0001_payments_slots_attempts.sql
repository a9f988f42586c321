-- The same numbers and the same meaning as in ../sqlite; one contract suite runs on both.
--
-- Addresses, hashes and uuids are lower-case text, so that a row can be read and compared in psql as it stands.
-- uint256 does not fit any integer type: amounts and validity windows are decimal text and never compared in SQL.
-- Columns ending in _ms are Unix milliseconds in database time.

CREATE TABLE payments (
    id                 TEXT COLLATE "C" PRIMARY KEY,
    version            BIGINT NOT NULL CHECK (version >= 1),
    status             TEXT COLLATE "C" NOT NULL CHECK (
        status IN ('reserved', 'signed', 'mined', 'settled', 'settled_elsewhere', 'failed', 'refused')),
    network            BIGINT NOT NULL CHECK (network BETWEEN 1 AND 9007199254740991),
    verifying_contract TEXT COLLATE "C" NOT NULL,
    authorizer         TEXT COLLATE "C" NOT NULL,
    auth_nonce         TEXT COLLATE "C" NOT NULL,
    fingerprint        TEXT COLLATE "C" NOT NULL,
    pay_to             TEXT COLLATE "C" NOT NULL,
    amount             TEXT COLLATE "C" NOT NULL,
    valid_after        TEXT COLLATE "C" NOT NULL,
    valid_before       TEXT COLLATE "C" NOT NULL,
    -- The second from which the authorization can no longer execute, clamped to what a bigint holds.
    expires_at         BIGINT NOT NULL CHECK (expires_at >= 0),
    reason             TEXT COLLATE "C",
    message            TEXT,
    tx_hash            TEXT COLLATE "C",
    block_number       BIGINT CHECK (block_number >= 0),
    last_answer        TEXT COLLATE "C" CHECK (last_answer IN ('pending', 'success')),
    -- Set while an answer is on its way to its caller: what last_answer goes back to if the caller is gone.
    answer_before      TEXT COLLATE "C" CHECK (answer_before IN ('none', 'pending')),
    -- Answers said so far: a caller that waited while another was told is no repeat.
    answers            BIGINT NOT NULL DEFAULT 0 CHECK (answers >= 0),
    answer_holder      TEXT COLLATE "C",
    answer_until_ms    BIGINT,
    created_at_ms      BIGINT NOT NULL,
    updated_at_ms      BIGINT NOT NULL,
    CHECK ((answer_holder IS NULL) = (answer_until_ms IS NULL)),
    CHECK (answer_before IS NULL OR (answer_holder IS NOT NULL AND last_answer IS NOT NULL))
);

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
    network     BIGINT NOT NULL CHECK (network BETWEEN 1 AND 9007199254740991),
    address     TEXT COLLATE "C" NOT NULL,
    nonce_floor BIGINT NOT NULL CHECK (nonce_floor >= 0),
    PRIMARY KEY (network, address)
);

-- A slot is one lane nonce given away. There is no counter: the next nonce is the highest slot plus one.
CREATE TABLE slots (
    id            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    network       BIGINT NOT NULL,
    lane          TEXT COLLATE "C" NOT NULL,
    lane_nonce    BIGINT NOT NULL CHECK (lane_nonce >= 0),
    payment_id    TEXT COLLATE "C" REFERENCES payments (id),
    outcome       TEXT COLLATE "C" CHECK (outcome IN ('ours', 'foreign')),
    created_at_ms BIGINT NOT NULL,
    closed_at_ms  BIGINT,
    FOREIGN KEY (network, lane) REFERENCES lanes (network, address),
    UNIQUE (network, lane, lane_nonce)
);

-- A payment occupies one lane nonce at a time: sign_slot refuses a second open slot, and this index holds even if it did not.
CREATE UNIQUE INDEX slots_one_open_per_payment ON slots (payment_id) WHERE outcome IS NULL;
CREATE INDEX slots_by_payment ON slots (payment_id);
CREATE INDEX slots_open ON slots (network, lane, lane_nonce) WHERE outcome IS NULL;

CREATE TABLE attempts (
    slot_id                  BIGINT NOT NULL REFERENCES slots (id),
    sequence                 BIGINT NOT NULL CHECK (sequence BETWEEN 0 AND 4294967295),
    kind                     TEXT COLLATE "C" NOT NULL CHECK (kind IN ('payment', 'filler')),
    raw                      BYTEA NOT NULL,
    hash                     TEXT COLLATE "C" NOT NULL UNIQUE,
    max_fee_per_gas          TEXT COLLATE "C" NOT NULL,
    max_priority_fee_per_gas TEXT COLLATE "C" NOT NULL,
    gas_limit                BIGINT NOT NULL CHECK (gas_limit >= 0),
    created_at_ms            BIGINT NOT NULL,
    PRIMARY KEY (slot_id, sequence)
);

-- The world may hold any bytes we ever signed, so no row that remembers them may change or go.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END
$$;
CREATE TRIGGER attempts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON attempts
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE idempotency_keys (
    scope       TEXT COLLATE "C" NOT NULL,
    key         TEXT COLLATE "C" NOT NULL,
    fingerprint TEXT COLLATE "C" NOT NULL,
    -- The final answer as it was written; NULL until there is one.
    answer      TEXT,
    bound_at    BIGINT NOT NULL CHECK (bound_at >= 0),
    PRIMARY KEY (scope, key)
);

CREATE TABLE keepers (
    network  BIGINT PRIMARY KEY CHECK (network BETWEEN 1 AND 9007199254740991),
    holder   TEXT COLLATE "C" NOT NULL,
    epoch    BIGINT NOT NULL CHECK (epoch >= 1),
    until_ms BIGINT NOT NULL
);
