-- The same numbers and the same meaning as in ../sqlite; one contract suite runs on both.

-- keccak256 of the signature a payment was promised for: a contract wallet can accept others for the same authorization, and
-- what becomes of one says nothing about another. NULL in older rows.
ALTER TABLE payments ADD COLUMN signature_digest TEXT COLLATE "C";
-- The asset's canonical bytes (ERC-7930), as pay_to_account are the payee's. NULL in older rows.
ALTER TABLE payments ADD COLUMN asset_account BYTEA;
CREATE INDEX payments_by_asset_account ON payments (asset_account);

-- The identity under which each origin was first verified (ERC-8478). Rows are never changed; an operator may delete any.
CREATE TABLE payee_origins (
    origin         TEXT COLLATE "C" PRIMARY KEY,
    registry       TEXT COLLATE "C" NOT NULL,
    agent_id       TEXT COLLATE "C" NOT NULL,
    verified_at_ms BIGINT NOT NULL
);
