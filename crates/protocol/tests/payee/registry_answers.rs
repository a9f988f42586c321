//! testdata/payee/registry_behaviour.json: what registries really answered, on a chain of their own.

use crate::support::{bytes, data};
use alloy_primitives::Address;
use quittance_protocol::payee::{Fact, WalletCode, address_answer};
use serde_json::Value;

fn answer(value: &Value) -> Fact<Address> {
    address_answer(&bytes(value.as_str().unwrap()))
}

#[test]
fn measured_answers_are_read_as_what_they_are() {
    let data = data("registry_behaviour");
    let zero = Fact::Read(Address::ZERO);
    let set: Address = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse().unwrap();
    for field in ["walletAfterUnset", "walletAfterTransfer", "walletAfterSelfTransfer"] {
        assert_eq!(answer(&data[field]), zero, "{field}");
    }
    assert_eq!(answer(&data["walletAfterSet"]), Fact::Read(set));
    assert_eq!(answer(&data["setWith7702"]), Fact::Read(set));
    assert_eq!(answer(&data["nonexistent"]["getAgentWallet"]), zero);
    let contract: Address = data["contractRegister"]["contract"].as_str().unwrap().parse().unwrap();
    assert_eq!(answer(&data["contractRegister"]["wallet"]), Fact::Read(contract));

    let reader = &data["reader"];
    // No code at the registry: the call succeeds and answers nothing. That is no zero wallet.
    for answer in ["walletRet", "ownerRet"] {
        assert!(matches!(
            address_answer(&bytes(reader["codeless"]["out"][answer].as_str().unwrap())),
            Fact::Unread(_)
        ));
    }
    // The revert of `ownerOf` is no address.
    assert!(matches!(answer(&reader["nonexistent"]["out"]["ownerRet"]), Fact::Unread(_)));
    for case in ["ok7702", "nonexistent", "unset", "contract1271", "contract1271bad"] {
        assert!(matches!(answer(&reader[case]["out"]["walletRet"]), Fact::Read(_)), "{case}");
    }
}

#[test]
fn an_address_is_one_word_with_zeros_in_front() {
    let word = [[0; 12].as_slice(), &[0x11; 20]].concat();
    assert_eq!(address_answer(&word), Fact::Read(Address::repeat_byte(0x11)));
    for size in (0..=96).filter(|size| *size != 32) {
        assert!(matches!(address_answer(&vec![0; size]), Fact::Unread(_)), "{size}");
    }
    for position in 0..12 {
        let mut dirty = word.clone();
        dirty[position] = 1;
        assert!(matches!(address_answer(&dirty), Fact::Unread(_)), "{position}");
    }
}

#[test]
fn code_is_told_apart_by_size_and_head() {
    let data = data("registry_behaviour");
    let code = |case: &str| {
        let out = &data["reader"][case]["out"];
        let size = out["walletCodeSize"].as_str().unwrap().parse().unwrap();
        WalletCode::of(size, &bytes(out["walletCodeHead"].as_str().unwrap()))
    };
    let target: Address = "0x9a676e781a523b5d0c0e43731313a708cb607508".parse().unwrap();
    assert_eq!(code("ok7702"), WalletCode::Delegated(target));
    assert_eq!(code("unset"), WalletCode::Empty);
    assert_eq!(code("contract1271"), WalletCode::Contract);
    let designator = bytes(data["code7702"].as_str().unwrap());
    assert_eq!(WalletCode::of(23, &designator), WalletCode::Delegated(target));
    // Contracts cannot start like this since EIP-3541, but older ones could.
    assert_eq!(WalletCode::of(24, &designator), WalletCode::Contract);
    assert_eq!(WalletCode::of(22, &designator[..22]), WalletCode::Contract);
    assert_eq!(WalletCode::of(1, &[0]), WalletCode::Contract);
    assert_eq!(WalletCode::of(100, &[]), WalletCode::Contract);
}
