//! What is not a payment: the status, the whole body and the code of every kind of it, on both endpoints and in both
//! versions, without a question to the chain and without a trace in the store.

mod addresses;
mod bytes;
mod fields_v1;
mod fields_v2;
mod hex;
mod kinds;
mod mutate;
mod numbers;
mod payload_types;
mod size;
mod versions;
