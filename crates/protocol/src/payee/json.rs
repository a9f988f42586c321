//! Strangers' JSON: objects within limits, and numbers that are exact.

use super::FILE_BYTES_MAX;
use crate::{units::parse_decimal_u256, wire::plain};
use alloy_primitives::U256;
use serde_json::{Map, Value};

const DEPTH_MAX: usize = 32;

/// Why a registration file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Over [`FILE_BYTES_MAX`].
    #[error("the registration file is larger than 256 KiB")]
    TooLarge,
    /// Not UTF-8.
    #[error("the registration file is not UTF-8")]
    Utf8,
    /// Not JSON.
    #[error("the registration file is not JSON")]
    Json,
    /// JSON, but no object.
    #[error("the registration file is not a JSON object")]
    NotAnObject,
    /// Nested too deeply.
    #[error("the registration file is nested deeper than 32 levels")]
    TooDeep,
    /// Too many services.
    #[error("the registration file lists more than 256 services")]
    TooManyServices,
    /// An endpoint that is too long.
    #[error("the registration file has an endpoint longer than 2,048 bytes")]
    EndpointTooLong,
    /// Too many payees.
    #[error("the registration file lists more than 64 payees for one service")]
    TooManyPayees,
}

impl FileError {
    /// The word for it.
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::Utf8 => "utf8",
            Self::Json => "json",
            Self::NotAnObject => "not-an-object",
            Self::TooDeep => "too-deep",
            Self::TooManyServices => "too-many-services",
            Self::EndpointTooLong => "endpoint-too-long",
            Self::TooManyPayees => "too-many-payees",
        }
    }
}

/// One JSON object within the limits. Of a repeated member the last one counts, as in JavaScript.
pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Value>, FileError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(FileError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| FileError::Utf8)?;
    // A byte order mark is no JSON, but browsers take it away, and editors add it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Value::Object(object) = plain(text).ok_or(FileError::Json)? else {
        return Err(FileError::NotAnObject);
    };
    if object.values().all(|value| depth_is_within(value, DEPTH_MAX - 1)) {
        Ok(object)
    } else {
        Err(FileError::TooDeep)
    }
}

/// Recursion is bounded: by `levels`, and by the parser, which refuses more than 128.
fn depth_is_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(|item| depth_is_within(item, levels - 1)),
        Value::Object(map) => levels > 0 && map.values().all(|item| depth_is_within(item, levels - 1)),
        _ => true,
    }
}

/// A uint256: canonical decimal digits in a string, or a JSON integer that came through exactly. Everything that passed
/// through a floating-point number (exponents, fractions, integers beyond 64 bits) is refused.
pub(super) fn uint(value: &Value) -> Option<U256> {
    match value {
        Value::String(digits) => parse_decimal_u256(digits),
        Value::Number(number) => number.as_u64().map(U256::from),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// `serde_json` reads such a text as JSON of its own, one within the other. On the stack of a worker thread.
    #[test]
    fn texts_within_texts_are_texts() {
        let mut file = "1".to_owned();
        while file.len() < FILE_BYTES_MAX / 4 {
            let text = Value::String("[".repeat(120) + &file + &"]".repeat(120)).to_string();
            file = format!("{{\"$serde_json::private::RawValue\":{text}}}");
        }
        let worker = thread::Builder::new().stack_size(2 * 1024 * 1024);
        let members = worker.spawn(move || object(file.as_bytes()).unwrap().len()).unwrap();
        assert_eq!(members.join().unwrap(), 1);
    }
}
