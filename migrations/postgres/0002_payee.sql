-- The same numbers and the same meaning as in ../sqlite; one contract suite runs on both.

-- The payee check's answer (ERC-8478) as JSON, when there was one; the first one stays.
ALTER TABLE payments ADD COLUMN payee TEXT;
-- The payee's canonical bytes (ERC-7930): one payee, one value, whatever the spelling of its strings. NULL in older rows.
ALTER TABLE payments ADD COLUMN pay_to_account BYTEA;
CREATE INDEX payments_by_pay_to_account ON payments (pay_to_account);
