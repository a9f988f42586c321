//! Tests of the protocol crate from outside. One binary, so that they link once.
#![allow(unreachable_pub, reason = "modules of one test binary share freely")]

mod codes;
mod data;
mod docs;
mod facts;
mod gas;
mod golden;
mod messages;
mod precedence;
mod properties;
mod support;
mod transitions;
mod wire;
mod wrappers;
