//! ERC-8478: the facts in testdata/payee, a second implementation of the decision table, and what must never happen.
//! Facts about reputation feedback are not among them: it is not served yet.
#![allow(unreachable_pub, reason = "modules of one test binary share freely")]
#![allow(clippy::unwrap_used, reason = "data that cannot be read fails the test")]

mod answer;
mod claim;
mod dag;
mod delegation_rules;
mod delegation_vectors;
mod ipfs;
mod origin_vectors;
mod outcome_vectors;
mod properties;
mod registration;
mod registry_answers;
mod support;
mod table;
mod token_uri;
