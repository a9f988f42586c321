//! What only tests need: faults between the product and its node, a database of their own, and the real binary.

pub mod config;
pub mod postgres;
pub mod process;
pub mod proxy;
mod unix;

pub use config::{ConfigBuilder, NetworkConfig};
pub use postgres::PgCluster;
pub use process::QuittanceProcess;
pub use proxy::{Fault, RpcProxy, Rule, SECRET_MARKER};
pub use unix::free_port;
