//! Signed payments against published values, computed by another implementation.

use alloy::primitives::{Address, B256, Bytes, address, b256, bytes, hex};
use quittance_testkit::{PaymentBuilder, X402Version, dev_signer, payment};
use serde_json::json;

const USDC: Address = address!("036CbD53842c5426634e7929541eC2318f3dCF7e");
const SEPARATOR: B256 = b256!("71f17a3b2ff373b803d70a5a07c046c1a2bc8e89c09ef722fcb047abe94c9818");
const DIGEST: B256 = b256!("e0dfe24d878b305003494ca1f3bb1bd9572485a3bd6eaafb8b28664d0f1cd61c");
const SIGNATURE: Bytes = bytes!(
    "697475f4bb41b7ff040d0092186d2cc068889296133bae2d51088a1e880389c706f988132efd2b016da5194537fe314f4005c006ecb7b94b0f0f4ee967dff9511b"
);
const TWIN: Bytes = bytes!(
    "697475f4bb41b7ff040d0092186d2cc068889296133bae2d51088a1e880389c7f90677ecd102d4fe925ae6bac801ceaf7aa91cdfc290e6f0b0c30fa3685647f01c"
);

fn golden() -> PaymentBuilder {
    PaymentBuilder::new(84532, USDC)
        .payer(dev_signer(0))
        .pay_to(address!("209693Bc6afc0C5328bA36FaF03C514EF312287C"))
        .amount(10_000)
        .valid_after(0)
        .valid_before(1_893_456_000)
        .nonce(B256::repeat_byte(0x11))
}

#[test]
fn golden_digest_and_signature() {
    let payment = golden().sign();
    assert_eq!(payment.domain_separator(), SEPARATOR);
    assert_eq!(payment.digest(), DIGEST);
    assert_eq!(*payment.signature(), SIGNATURE);
    assert_eq!(payment.payer(), address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"));
}

#[test]
fn high_s_twin_recovers_to_the_same_address() {
    let payment = golden().sign();
    let twin = payment.clone().high_s_twin().unwrap();
    assert_eq!(*twin.signature(), TWIN);
    for signature in [payment.signature(), twin.signature()] {
        assert_eq!(payment::recover(DIGEST, signature).unwrap(), payment.payer());
    }
    assert_eq!(twin.high_s_twin().unwrap(), payment);
}

#[test]
fn body_v2() {
    let payment = golden().extra("assetTransferMethod", json!("eip3009")).sign();
    let requirements = json!({
        "scheme": "exact",
        "network": "eip155:84532",
        "amount": "10000",
        "asset": "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
        "payTo": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
        "maxTimeoutSeconds": 300,
        "extra": {"name": "USDC", "version": "2", "assetTransferMethod": "eip3009"},
    });
    let expected = json!({
        "x402Version": 2,
        "paymentPayload": {
            "x402Version": 2,
            "resource": {
                "url": "https://seller.example/report", "description": "A report", "mimeType": "application/json",
            },
            "accepted": requirements,
            "payload": {
                "signature": SIGNATURE,
                "authorization": {
                    "from": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
                    "to": "0x209693Bc6afc0C5328bA36FaF03C514EF312287C",
                    "value": "10000",
                    "validAfter": "0",
                    "validBefore": "1893456000",
                    "nonce": format!("0x{}", "11".repeat(32)),
                },
            },
        },
        "paymentRequirements": requirements,
    });
    assert_eq!(*payment.body(), expected);
}

#[test]
fn body_v1_has_legacy_names_and_the_same_signature() {
    let payment = golden().v1().sign();
    assert_eq!(payment.version(), X402Version::V1);
    assert_eq!(*payment.signature(), SIGNATURE);
    assert_eq!(payment.network(), "base-sepolia");
    let payload = payment.payload();
    assert_eq!((&payload["scheme"], &payload["network"]), (&json!("exact"), &json!("base-sepolia")));
    assert!(payload.get("accepted").is_none() && payload.get("resource").is_none());
    let requirements = payment.requirements();
    assert_eq!(requirements["maxAmountRequired"], "10000");
    assert_eq!(requirements["resource"], "https://seller.example/report");
    assert!(requirements.get("amount").is_none());
}

#[test]
fn what_is_signed_may_differ_from_what_is_asked() {
    let elsewhere = Address::repeat_byte(7);
    let payment = golden().value(1).recipient(elsewhere).sign();
    assert_eq!(payment.requirements()["amount"], "10000");
    let authorization = &payment.payload()["payload"]["authorization"];
    assert_eq!(authorization["value"], "1");
    assert_eq!(authorization["to"], json!(elsewhere.to_string()));
    assert_eq!(payment::recover(payment.digest(), payment.signature()).unwrap(), payment.payer());
    for other in
        [golden().domain("USD Coin", "2"), golden().domain_chain_id(1), golden().domain_contract(elsewhere)]
    {
        assert_ne!(other.sign().digest(), DIGEST);
    }
}

#[test]
fn every_signing_has_its_own_nonce_unless_told() {
    let builder = PaymentBuilder::new(84532, USDC).now(1_000_000);
    let (one, two) = (builder.sign(), builder.sign());
    assert_ne!(one.nonce(), two.nonce());
    assert_eq!(one.valid_after().to_string(), "999400");
    assert_eq!(one.valid_before().to_string(), "1000300");
}

#[test]
fn wrapper_is_abi_encoded_before_the_suffix() {
    let factory = Address::repeat_byte(0xfa);
    let payment = golden().sign().erc6492(factory, &bytes!("c0ffee"));
    let wrapper = payment.signature();
    let (body, suffix) = wrapper.split_at(wrapper.len() - 32);
    assert_eq!(suffix, payment::ERC6492_SUFFIX.as_slice());
    assert_eq!(&body[12..32], factory.as_slice());
    assert_eq!(body[63], 0x60, "the calldata starts behind three words");
    assert!(hex::encode(body).contains(&hex::encode(&SIGNATURE)));
    assert_eq!(payment.payload()["payload"]["signature"], json!(wrapper));
}

#[test]
fn mutations_touch_only_what_they_name() {
    let payment = golden().sign();
    let changed = payment.clone().with_value("/paymentRequirements/amount", json!("1"));
    assert_eq!(changed.requirements()["amount"], "1");
    assert_eq!(changed.payload(), payment.payload());
    let smaller = payment.clone().without("/paymentPayload/accepted");
    assert!(smaller.payload().get("accepted").is_none());
    let other_v = payment.clone().with_v(0).unwrap();
    assert_eq!(other_v.signature()[..64], SIGNATURE[..64]);
    assert_eq!(other_v.signature()[64], 0);
    assert!(payment.erc6492(Address::ZERO, &Bytes::new()).high_s_twin().is_err());
}

#[test]
#[should_panic(expected = "nothing at /paymentPayload/nowhere")]
fn a_mutation_that_hits_nothing_fails() {
    let _ = golden().sign().without("/paymentPayload/nowhere");
}
