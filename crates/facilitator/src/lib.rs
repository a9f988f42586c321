//! The x402 facilitator: library and the quittance binary.
