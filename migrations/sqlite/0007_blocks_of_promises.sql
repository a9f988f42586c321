-- The same numbers and the same meaning as in ../postgres; one contract suite runs on both.

-- The block whose facts a promise was made on: it is not ended by facts of an older one, whichever process reads them. NULL in older
-- rows.
ALTER TABLE payments ADD COLUMN judged_in_block INTEGER CHECK (judged_in_block >= 0);
