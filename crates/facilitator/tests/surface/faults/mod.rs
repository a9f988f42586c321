//! A chain that cannot be read: 503 with `Retry-After`, never a verdict, nothing reserved, nothing signed, and no word of
//! where the node is or what it said.

mod broken;
mod failover;
mod slow;
mod start;
