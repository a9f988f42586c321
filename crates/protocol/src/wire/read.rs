//! Reading JSON objects field by field, so that a bad field is named in the answer.
//!
//! `null` is the same as absent, unknown fields are ignored (spec/x402.md §1.1).

use crate::{
    code::Code,
    interop::coherent,
    units::{Network, parse_decimal_u256},
    wire::Refusal,
};
use alloy_primitives::{Address, B256, Bytes, U256, hex};
use serde_json::{Map, Value};

/// An object under a name, with the code to answer when one of its fields cannot be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'a> {
    path: &'a str,
    code: Code,
    map: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    pub(crate) fn new(path: &'a str, code: Code, value: Option<&'a Value>) -> Result<Self, Refusal> {
        match value {
            Some(Value::Object(map)) => Ok(Self { path, code, map }),
            None | Some(Value::Null) => Err(Refusal::new(code, format!("{path} is missing"))),
            Some(_) => Err(Refusal::new(code, format!("{path} must be an object"))),
        }
    }

    pub(crate) fn get(&self, field: &str) -> Option<&'a Value> {
        self.map.get(field).filter(|v| !v.is_null())
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    pub(crate) fn object(&self, field: &str, path: &'a str) -> Result<Object<'a>, Refusal> {
        Object::new(path, self.code, self.map.get(field))
    }

    pub(crate) fn optional_object(&self, field: &str, path: &'a str) -> Result<Option<Object<'a>>, Refusal> {
        self.get(field).map(|v| Object::new(path, self.code, Some(v))).transpose()
    }

    pub(crate) fn optional_str(&self, field: &str) -> Result<Option<&'a str>, Refusal> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(_) => Err(self.bad(field, "must be a string")),
        }
    }

    pub(crate) fn str(&self, field: &str) -> Result<&'a str, Refusal> {
        self.optional_str(field)?.ok_or_else(|| self.bad(field, "is missing"))
    }

    pub(crate) fn non_empty_str(&self, field: &str) -> Result<&'a str, Refusal> {
        match self.str(field)? {
            "" => Err(self.bad(field, "must not be empty")),
            s => Ok(s),
        }
    }

    pub(crate) fn positive_number(&self, field: &str) -> Result<(), Refusal> {
        match self.get(field) {
            None => Err(self.bad(field, "is missing")),
            Some(Value::Number(n)) if n.as_f64().is_some_and(|n| n > 0.0 && n.is_finite()) => Ok(()),
            Some(_) => Err(self.bad(field, "must be a positive number")),
        }
    }

    pub(crate) fn decimal_u256(&self, field: &str) -> Result<U256, Refusal> {
        parse_decimal_u256(self.str(field)?)
            .ok_or_else(|| self.bad(field, "must be a decimal uint256 without sign or leading zeros"))
    }

    pub(crate) fn address(&self, field: &str) -> Result<Address, Refusal> {
        parse_address(self.str(field)?).ok_or_else(|| self.bad(field, "must be 0x and 40 hex digits"))
    }

    /// An address of a payment requirement, which has to fit its network.
    pub(crate) fn address_on(&self, network: Network, field: &str) -> Result<Address, Refusal> {
        coherent(&network.to_string(), field, self.str(field)?)?;
        self.address(field)
    }

    pub(crate) fn b256(&self, field: &str) -> Result<B256, Refusal> {
        fixed_hex(self.str(field)?)
            .map(B256::new)
            .ok_or_else(|| self.bad(field, "must be 0x and 64 hex digits"))
    }

    pub(crate) fn bytes(&self, field: &str) -> Result<Bytes, Refusal> {
        self.str(field)?
            .strip_prefix("0x")
            .and_then(|digits| hex::decode(digits).ok().filter(|_| !digits.starts_with("0x")))
            .map(Bytes::from)
            .ok_or_else(|| self.bad(field, "must be 0x and an even number of hex digits"))
    }

    pub(crate) fn bad(&self, field: &str, what: &str) -> Refusal {
        Refusal::new(self.code, format!("{}.{field} {what}", self.path))
    }
}

/// 0x and 40 hex digits of any case; the checksum, if there is one, is not judged (spec/x402.md §7, 27).
pub fn parse_address(s: &str) -> Option<Address> {
    fixed_hex(s).map(Address::new)
}

fn fixed_hex<const N: usize>(s: &str) -> Option<[u8; N]> {
    let digits = s.strip_prefix("0x")?;
    let mut out = [0; N];
    // `decode_to_slice` checks the length, and would accept a second prefix.
    if digits.starts_with("0x") {
        return None;
    }
    hex::decode_to_slice(digits, &mut out).ok()?;
    Some(out)
}
