//! Anvil with contracts, payment builder, RPC fault proxy, throwaway PostgreSQL.
