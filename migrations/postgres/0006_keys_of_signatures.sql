-- The same numbers and the same meaning as in ../sqlite; one contract suite runs on both.

-- Digest of the signature that a key was first used with, and of what it signs: another signature, or the same one for another
-- EIP-712 domain, is another payload. NULL in older rows: any. payments.signature_digest means the same from here on; what older
-- versions wrote there is of the signature alone, matches none of these, and so is proven anew.
ALTER TABLE idempotency_keys ADD COLUMN signature_digest TEXT COLLATE "C";
