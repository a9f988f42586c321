//! Settings: every bad one stops the server before it listens, and is named.

mod check;
mod command_line;
mod environment;
mod files;
mod networks;
mod ready;
mod secrets;
mod tables;
mod unknown;
