-- The same numbers and the same meaning as in ../postgres; one contract suite runs on both.

-- What a payer's balance has to cover: everything it has promised and not paid yet...
CREATE INDEX payments_promised ON payments (network, verifying_contract, authorizer)
    WHERE status IN ('reserved', 'signed', 'mined');
-- ...and what it has paid since the block its balance was read at.
CREATE INDEX payments_paid ON payments (network, verifying_contract, authorizer, block_number)
    WHERE status IN ('settled', 'settled_elsewhere');
