-- The same numbers and the same meaning as in ../sqlite; one contract suite runs on both.

-- What a payer's balance has to cover: everything it has promised and not paid yet...
CREATE INDEX payments_promised ON payments (network, verifying_contract, authorizer)
    WHERE status IN ('reserved', 'signed', 'mined');
-- ...and what it has paid since the block its balance was read at.
CREATE INDEX payments_paid ON payments (network, verifying_contract, authorizer, block_number)
    WHERE status IN ('settled', 'settled_elsewhere');

-- The sum of it in atomic units, for this payer alone until the transaction ends: what two replicas promise at the same
-- moment must not be covered by the same money. Not counted are the payments whose ids stand in `without`; NULL: it has promised as
-- often as it may, 4096 times. A function, because its second statement has to see what was committed
-- while the first one waited. SQLite's one writer adds up in Rust, where a uint256 fits.
CREATE FUNCTION payments_promised_amount(the_network BIGINT, contract TEXT, payer TEXT, read_at BIGINT, without TEXT)
RETURNS NUMERIC LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(the_network || contract || payer, 0));
    RETURN (
        SELECT CASE WHEN COUNT(*) < 4096 THEN COALESCE(SUM(CAST(amount AS NUMERIC)), 0) END FROM (
            SELECT amount FROM payments
            WHERE network = the_network AND verifying_contract = contract AND authorizer = payer
            AND status IN ('reserved', 'signed', 'mined')
            AND (status <> 'reserved' OR expires_at > extract(epoch FROM clock_timestamp()))
            AND strpos(without, id) = 0
            UNION ALL
            SELECT amount FROM payments
            WHERE network = the_network AND verifying_contract = contract AND authorizer = payer
            AND status IN ('settled', 'settled_elsewhere') AND block_number > read_at
            AND strpos(without, id) = 0
        ) AS promised
    );
END
$$;
