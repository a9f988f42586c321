//! Interoperable addresses: what is read is what would be written, as bytes, as a name and as a pair.

use super::from_hex;
use quittance_protocol::{
    code::Code,
    interop::{InteropAddress, InteropError, coherent},
};

/// The input as bytes, as their hex, as a name, and as `address@network`.
pub fn check(input: &[u8]) {
    blob(input);
    if let Some(bytes) = from_hex(input) {
        blob(&bytes);
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let text = text.trim_ascii();
    hex(text);
    name(text);
    if let Some((address, network)) = text.split_once('@') {
        pair(network, address);
    }
}

fn blob(bytes: &[u8]) {
    match InteropAddress::decode(bytes) {
        Ok(parsed) => {
            assert_eq!(parsed.encode(), bytes, "nothing is accepted that would not be written");
            assert_eq!(parsed.is_payee(), holds_both_parts(bytes));
            spelled(&parsed);
        }
        Err(error) => explained(error),
    }
}

/// By the lengths alone: chain and address are both there.
fn holds_both_parts(bytes: &[u8]) -> bool {
    bytes[4] != 0 && bytes[5 + usize::from(bytes[4])] != 0
}

/// Every spelling leads back.
fn spelled(address: &InteropAddress) {
    let name = address.to_string();
    assert_eq!(InteropAddress::decode(&address.encode()).as_ref(), Ok(address));
    if let Some(network) = address.network() {
        assert_eq!(name.parse().as_ref(), Ok(address), "{name}");
        let (without_checksum, checksum) = name.split_once('#').expect("a checksum");
        assert_eq!(checksum, address.checksum());
        assert_eq!(without_checksum.parse().as_ref(), Ok(address), "{name}");
        let text = address.address().unwrap_or_default();
        assert_eq!(InteropAddress::from_pair(&network, &text).as_ref(), Ok(address), "{network} {text}");
        assert_eq!(InteropAddress::payee(&network, &text).is_ok(), address.is_payee());
    } else {
        // An address alone has bytes but no chain to be parsed with.
        assert_eq!(name.parse::<InteropAddress>(), Err(InteropError::Label));
    }
}

fn hex(text: &str) {
    if let Ok(parsed) = InteropAddress::from_hex(text) {
        let written = format!("0x{}", alloy_primitives::hex::encode(parsed.encode()));
        assert!(written.eq_ignore_ascii_case(text), "{text}");
    }
}

fn name(text: &str) {
    match text.parse::<InteropAddress>() {
        Ok(parsed) => spelled(&parsed),
        Err(error) => explained(error),
    }
}

/// The gate lets through what the codec knows, and says which pair it stopped.
fn pair(network: &str, address: &str) {
    let parsed = InteropAddress::payee(network, address);
    match coherent(network, "payTo", address) {
        Ok(Some(payee)) => {
            assert!(payee.is_payee());
            spelled(&payee);
            // A wrong checksum is no reason to close the gate.
            assert!(parsed == Ok(payee) || parsed == Err(InteropError::AddressChecksum));
        }
        Ok(None) => assert_eq!(parsed, Err(InteropError::NamespaceNoProfile)),
        Err(refusal) => {
            assert!(parsed.is_err());
            assert_eq!(refusal.code, Code::InvalidPaymentRequirements);
            assert!(refusal.message.contains("paymentRequirements.payTo"));
        }
    }
}

fn explained(error: InteropError) {
    assert!(!error.code().is_empty() && !error.to_string().is_empty());
}
