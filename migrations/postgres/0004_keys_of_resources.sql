-- The same numbers and the same meaning as in ../sqlite; one contract suite runs on both.

-- keccak256 of the URL that a payment identifier was first used for. NULL: the key stands for the payment alone, as every
-- Idempotency-Key does, and as all did in older rows.
ALTER TABLE idempotency_keys ADD COLUMN resource TEXT COLLATE "C";
-- Old keys are forgotten, those of open payments excepted.
CREATE INDEX idempotency_keys_by_age ON idempotency_keys (bound_at);
CREATE INDEX payments_by_fingerprint ON payments (fingerprint);
