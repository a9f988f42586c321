//! HTTP itself: methods, paths, origins, keys, and callers who do not keep to it.

mod connections;
mod cors;
mod hostile;
mod keys;
mod malformed;
mod methods;
mod slow;
