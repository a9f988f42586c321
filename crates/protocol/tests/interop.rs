//! ERC-7930 and ERC-7828: the facts in testdata/payee/erc7930.json, and one spelling for every payee.

use alloy_primitives::{Address, U256, hex};
use proptest::prelude::*;
use quittance_protocol::{
    code::Code,
    interop::{Cluster, InteropAddress, InteropError, coherent},
};
use serde_json::Value;

fn data() -> Value {
    let path = format!("{}/../../testdata/payee/erc7930.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(&path).expect(&path)).expect(&path)
}

fn list<'a>(data: &'a Value, field: &str) -> &'a [Value] {
    data[field].as_array().expect(field)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().expect(field)
}

fn in_hex(address: &InteropAddress) -> String {
    format!("0x{}", hex::encode(address.encode()))
}

#[test]
fn every_pair_in_the_data() {
    let data = data();
    let pairs = list(&data, "pairs");
    let mut valid = 0;
    for pair in pairs {
        let (network, pay_to, expected) = (text(pair, "network"), text(pair, "payTo"), &pair["expected"]);
        match InteropAddress::from_pair(network, pay_to) {
            Ok(parsed) => {
                assert_eq!(expected["valid"], true, "{pair}");
                assert_eq!(in_hex(&parsed), text(expected, "blob"), "{pair}");
                assert_eq!(parsed.encode().len(), expected["bytes"], "{pair}");
                assert_eq!(parsed.checksum(), text(expected, "checksum"), "{pair}");
                assert_eq!(parsed.to_string(), text(expected, "name"), "{pair}");
                assert_eq!(parsed.to_string().parse().as_ref(), Ok(&parsed), "{pair}");
                assert_eq!(InteropAddress::from_hex(text(expected, "blob")).as_ref(), Ok(&parsed), "{pair}");
                let payee = InteropAddress::payee(network, pay_to);
                assert_eq!(payee, if pay_to.is_empty() { Err(InteropError::Incomplete) } else { Ok(parsed) });
                valid += 1;
            }
            Err(error) => {
                assert_eq!(expected["valid"], false, "{pair}: {error}");
                assert_eq!(error.code(), text(expected, "error"), "{pair}");
                assert_eq!(error.needs_profile(), error.code() == "namespace-no-profile");
                assert_eq!(InteropAddress::payee(network, pay_to), Err(error));
            }
        }
    }
    assert_eq!((pairs.len(), valid), (55, 27));
}

#[test]
fn every_blob_in_the_data() {
    let data = data();
    let blobs = list(&data, "blobs");
    let mut valid = 0;
    for blob in blobs {
        let expected = &blob["expected"];
        match InteropAddress::from_hex(text(blob, "blob")) {
            Ok(parsed) => {
                assert_eq!(expected["valid"], true, "{blob}");
                assert_eq!(parsed.namespace(), text(expected, "namespace"), "{blob}");
                assert_eq!(parsed.reference().as_deref(), expected["chain"].as_str(), "{blob}");
                assert_eq!(parsed.address().as_deref(), expected["address"].as_str(), "{blob}");
                let both = expected["chain"].is_string() && expected["address"].is_string();
                assert_eq!(parsed.is_payee(), both, "{blob}");
                assert_eq!(in_hex(&parsed), text(blob, "blob").to_lowercase(), "{blob}");
                valid += 1;
            }
            Err(error) => {
                assert_eq!(expected["valid"], false, "{blob}: {error}");
                assert_eq!(error.code(), text(expected, "error"), "{blob}");
            }
        }
    }
    assert_eq!((blobs.len(), valid), (23, 5));
}

#[test]
fn every_solana_cluster_in_the_data() {
    let data = data();
    let clusters = list(&data, "solanaGenesis");
    assert_eq!(clusters.len(), Cluster::ALL.len());
    for (row, cluster) in clusters.iter().zip(Cluster::ALL) {
        assert_eq!(format!("solana:{}", cluster.reference()), text(row, "caip2"));
        assert_eq!(cluster.genesis(), text(row, "genesis"));
        assert_eq!(cluster.hash().to_string(), text(row, "chainReference"));
        // Whatever way it is written, the wire gets the short form and the bytes the whole hash.
        for reference in [cluster.reference(), cluster.genesis()] {
            let chain = InteropAddress::from_pair(&format!("solana:{reference}"), "").unwrap();
            assert_eq!(chain.network().as_deref(), Some(text(row, "caip2")));
            assert!(in_hex(&chain).contains(&text(row, "chainReference")[2..]));
        }
        let cut =
            [&[0, 1, 0, 2, 32], hex::decode(text(row, "truncatedDecodesTo")).unwrap().as_slice()].concat();
        assert!(InteropAddress::decode(&cut).is_err());
    }
}

#[test]
fn a_name_is_believed_with_its_checksum_or_without() {
    let name = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045@eip155:8453";
    let parsed: InteropAddress = name.parse().unwrap();
    assert_eq!(format!("{name}#17DE0709").parse(), Ok(parsed.clone()));
    assert_eq!(parsed.to_string(), format!("{name}#17DE0709"));
    let short =
        "MJKqp326RZCHnAAbew9MDdui3iCKWco7fsK9sVuZTX2@solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp#88835C11";
    assert!(short.parse::<InteropAddress>().is_ok());
    for (bad, error) in [
        ("0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045@eip155:8453#17DE0708", InteropError::Checksum),
        ("0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045@eip155:8453#17de0709", InteropError::Checksum),
        ("0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045@eip155:8453#", InteropError::Checksum),
        ("0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045@eip155:1#17DE0709", InteropError::Checksum),
        ("0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045@base", InteropError::Label),
        ("vitalik.eth@base", InteropError::Label),
        ("vitalik.eth@eip155:8453", InteropError::Address),
        ("0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045", InteropError::TextMalformed),
        ("", InteropError::TextMalformed),
        ("@", InteropError::Label),
        ("@eip155:1:2", InteropError::NetworkMalformed),
        ("@eip155:1@eip155:1", InteropError::NetworkMalformed),
        (" 0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045@eip155:1", InteropError::Address),
    ] {
        assert_eq!(bad.parse::<InteropAddress>(), Err(error), "{bad}");
    }
}

/// ERC-7930's example of an address on any chain; its text names no chain, so it is shown and not read.
#[test]
fn an_address_on_any_chain_is_no_payee() {
    let any = InteropAddress::from_hex("0x000100000014d8da6bf26964af9d7eed9e03e53415d37aa96045").unwrap();
    assert_eq!(any.to_string(), "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045@eip155#B26DB7CB");
    assert!(!any.is_payee());
    assert_eq!(any.network(), None);
    assert_eq!(any.to_string().parse::<InteropAddress>(), Err(InteropError::Label));
    assert_eq!(InteropAddress::evm(U256::ZERO, Address::ZERO), None);
}

#[test]
fn starknet_addresses_are_below_two_to_the_251() {
    let pair = |address: &str| InteropAddress::from_pair("starknet:SN_MAIN", address);
    assert!(pair(&format!("0x07{}", "f".repeat(62))).is_ok());
    assert!(pair(&format!("0x{}", "0".repeat(64))).is_ok());
    for bad in
        [format!("0x08{}", "0".repeat(62)), format!("0x{}", "1".repeat(63)), "0x1".into(), "1".repeat(66)]
    {
        assert_eq!(pair(&bad), Err(InteropError::Address), "{bad}");
    }
    let wrong_case = "0x02ddfB499765c064eaC5039E3841AA5f382E73B598097a40073BD8B48170Ab57";
    assert_eq!(pair(wrong_case), Err(InteropError::AddressChecksum));
    assert!(pair(&wrong_case.to_lowercase()).is_ok());
    let blob = |reference: &[u8]| {
        let length = [u8::try_from(reference.len()).unwrap()];
        InteropAddress::decode(&[&[0, 1, 0, 3], length.as_slice(), reference, &[0]].concat())
    };
    assert!(blob(b"SN_SEPOLIA").is_ok());
    assert_eq!(blob(b"SN MAIN"), Err(InteropError::ChainReference));
    assert_eq!(blob(&[0xff]), Err(InteropError::ChainReference));
    assert_eq!(blob(&[b'a'; 33]), Err(InteropError::ChainReferenceLength));
}

#[test]
fn hex_has_one_prefix() {
    let digits = "00010000010114d8da6bf26964af9d7eed9e03e53415d37aa96045";
    assert!(InteropAddress::from_hex(&format!("0x{digits}")).is_ok());
    for bad in
        [format!("0x0x{digits}"), format!("0X{digits}"), format!(" 0x{digits}"), format!("0x{digits} ")]
    {
        assert_eq!(InteropAddress::from_hex(&bad), Err(InteropError::Hex), "{bad}");
    }
}

#[test]
fn what_has_no_single_encoding_is_not_decoded() {
    // bip122: two documents, two layouts.
    let bip122 = [&[0, 1, 0, 1, 1, 1, 20][..], &[0; 20]].concat();
    assert_eq!(InteropAddress::decode(&bip122), Err(InteropError::NamespaceNoProfile));
    let unknown_genesis = [&[0, 1, 0, 2, 32][..], &[7; 32], &[0]].concat();
    assert_eq!(InteropAddress::decode(&unknown_genesis), Err(InteropError::ChainUnknown));
}

#[test]
fn the_gate_refuses_pairs_that_cannot_be() {
    let solana = "MJKqp326RZCHnAAbew9MDdui3iCKWco7fsK9sVuZTX2";
    let evm = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045";
    let (base, mainnet) = ("eip155:8453", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp");
    for (network, address) in [
        (base, solana),
        (mainnet, evm),
        (base, ""),
        ("eip155:0", evm),
        ("solana:mainnet", solana),
        ("base", evm),
    ] {
        let refusal = coherent(network, "payTo", address).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidPaymentRequirements);
        assert!(
            refusal.message.starts_with("paymentRequirements.network and paymentRequirements.payTo "),
            "{}",
            refusal.message
        );
    }
    assert_eq!(coherent(mainnet, "asset", solana), Ok(InteropAddress::payee(mainnet, solana).ok()));
    // Nobody here knows how these are written.
    assert_eq!(coherent("hedera:mainnet", "payTo", "0.0.1234"), Ok(None));
    // Addresses of any case are one address.
    let expected = Ok(InteropAddress::payee(base, evm).ok());
    for case in [evm.to_owned(), evm.to_lowercase(), evm.replace("0xd8dA", "0xD8DA")] {
        assert_eq!(coherent(base, "payTo", &case), expected, "{case}");
    }
}

fn addresses() -> impl Strategy<Value = InteropAddress> {
    let cluster = prop::sample::select(Cluster::ALL.to_vec());
    let evm = (any::<[u8; 32]>(), 0_usize..32, any::<[u8; 20]>()).prop_filter_map(
        "chain 0",
        |(id, shift, address)| {
            InteropAddress::evm(U256::from_be_bytes(id) >> (8 * shift), Address::new(address))
        },
    );
    let solana = (cluster, any::<[u8; 32]>()).prop_map(|(cluster, key)| {
        let blob = [&[0, 1, 0, 2, 32], cluster.hash().as_slice(), &[32], &key].concat();
        InteropAddress::decode(&blob).expect("a Solana account")
    });
    let starknet = ("[-_a-zA-Z0-9]{1,32}", any::<[u8; 32]>()).prop_map(|(name, mut address)| {
        address[0] &= 7;
        let text = format!("0x{}", hex::encode(address));
        InteropAddress::from_pair(&format!("starknet:{name}"), &text).expect("a Starknet account")
    });
    prop_oneof![evm, solana, starknet]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_payee_has_one_encoding_and_one_name(payee in addresses()) {
        prop_assert!(payee.is_payee());
        prop_assert_eq!(InteropAddress::decode(&payee.encode()), Ok(payee.clone()));
        prop_assert_eq!(payee.to_string().parse(), Ok(payee.clone()));
        let (network, address) = (payee.network().unwrap(), payee.address().unwrap());
        prop_assert_eq!(InteropAddress::payee(&network, &address), Ok(payee));
    }

    #[test]
    fn what_is_decoded_is_what_would_be_written(blob in prop::collection::vec(any::<u8>(), 0..90)) {
        if let Ok(address) = InteropAddress::decode(&blob) {
            prop_assert_eq!(address.encode(), blob);
        }
    }

    /// Bytes that look right nearly everywhere.
    #[test]
    fn a_changed_byte_is_refused_or_another_address(payee in addresses(), at in 0_usize..70, value: u8) {
        let mut blob = payee.encode();
        let at = at % blob.len();
        blob[at] = value;
        if let Ok(other) = InteropAddress::decode(&blob) {
            prop_assert_eq!(other.encode(), blob.clone());
            prop_assert_eq!(other == payee, blob == payee.encode());
        }
    }

    #[test]
    fn cut_or_continued_it_is_refused(payee in addresses(), by in 1_usize..90) {
        let blob = payee.encode();
        prop_assert!(InteropAddress::decode(&blob[..blob.len().saturating_sub(by)]).is_err());
        prop_assert_eq!(InteropAddress::decode(&[blob.as_slice(), &vec![0; by]].concat()), Err(InteropError::TrailingBytes));
    }

    /// One changed character of a name is noticed by the checksum, whatever the address's own spelling would allow.
    #[test]
    fn a_mistyped_name_is_refused(payee in addresses(), at in 0_usize..120, character in "[0-9a-zA-Z]") {
        let name = payee.to_string();
        let at = at % name.len();
        // Without its mark there is no checksum to notice anything.
        prop_assume!(&name[at..=at] != "#");
        let mistyped = format!("{}{character}{}", &name[..at], &name[at + 1..]);
        if let Ok(other) = mistyped.parse::<InteropAddress>() {
            prop_assert!(other == payee, "{mistyped}");
        }
    }

    #[test]
    fn any_text_is_read_or_refused(name in "\\PC{0,60}", network in "(eip155|solana|starknet|bip122|x)?:?\\PC{0,40}") {
        let _ = name.parse::<InteropAddress>();
        let _ = InteropAddress::from_hex(&name);
        let _ = InteropAddress::payee(&network, &name);
        let _ = format!("{name}@{network}").parse::<InteropAddress>();
    }
}
