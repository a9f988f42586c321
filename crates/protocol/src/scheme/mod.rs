//! What is particular to a scheme: digest, settlement calldata. A new scheme is a sibling here.

pub mod exact_eip3009;
