//! A node that gives a call less gas than was asked for (geth's `--rpc.gascap`): what was not asked is unread, and never
//! counts against the payment.

use super::cast::OWNER;
use crate::support::online::Online;
use alloy_primitives::{Address, B256, Bytes, U256, address, hex};
use quittance_testkit::{
    SignedPayment, X402Version, dev_signer,
    harness::{Fault, Rule, process::Wait},
};
use serde_json::{Value, json};

/// Deploys whatever it is given: a salt, and creation code behind it. On many chains, and Anvil has it from the start.
const CREATE2_DEPLOYER: Address = address!("4e59b44847b379578588920ca78fbf26c0b4956c");
/// What the wallet uses for each answer.
const HUNGER: u32 = 8_500_000;
/// What the operator grants: the transfer by such a wallet, with the third that is added to a settlement's gas.
const GAS_MAX: u64 = 12_000_000;

/// Creation code of a wallet that answers every `isValidSignature` with yes, after a long while.
fn hungry_wallet() -> Vec<u8> {
    // start = gas(); do {} while (start - gas() < HUNGER); return bytes4(0x1626ba7e)
    let runtime = [
        &hex!("5a 5b 5a 81 03 63")[..],
        &HUNGER.to_be_bytes(),
        &hex!("11 6001 57 63 1626ba7e 60e0 1b 6000 52 6020 6000 f3"),
    ]
    .concat();
    let length = u8::try_from(runtime.len()).unwrap();
    // return the rest of the code
    [&[0x60, length][..], &hex!("600c 6000 39"), &[0x60, length], &hex!("6000 f3"), &runtime].concat()
}

/// A payment of such a wallet, which is still to be deployed.
async fn hungry_payment(bench: &Online) -> SignedPayment {
    let (salt, code) = (B256::repeat_byte(1), hungry_wallet());
    let wallet = CREATE2_DEPLOYER.create2_from_code(salt, &code);
    bench.chain.mint(bench.chain.token, wallet, U256::from(1_000_000)).await.unwrap();
    let create = Bytes::from([&salt[..], &code].concat());
    let payment = bench.payment(X402Version::V2).await.wallet(wallet, dev_signer(OWNER)).sign();
    payment.erc6492(CREATE2_DEPLOYER, &create)
}

/// From now on the node gives the lens no more gas than this.
fn cap_gas(bench: &Online, gas: u64) {
    let cap = move |mut params: Value| {
        params[0]["gas"] = json!(format!("{gas:#x}"));
        params
    };
    bench.proxy.add(Rule::on("eth_call").then(Fault::rewrite_params(cap)));
}

async fn is_valid(bench: &Online, payment: &SignedPayment) -> bool {
    let (status, body) = bench.client.verify(payment.body()).await.unwrap();
    assert_eq!(status, 200, "{body}");
    body["isValid"] == true
}

/// Whatever gas there is, the payment is good or nothing is decided. In between lies the gas with which the wallet is deployed
/// and pays, and then cannot be asked whether it knows the signature.
#[tokio::test]
async fn a_deployed_payer_that_could_not_be_asked_is_no_wrong_signature() {
    const MILLION: u64 = 1_000_000;
    let bench = Online::start_listing(
        quittance_testkit::Anvil::builder(),
        |config| {
            let config = config.set("policy.gas_per_settlement_max", json!(GAS_MAX));
            config.set("replay.reserve_on_verify", json!(false))
        },
        Wait::Ready,
        |_| Some(CREATE2_DEPLOYER),
    )
    .await;
    let payment = hungry_payment(&bench).await;
    let not_asked = || bench.server.log_text().matches("too little gas to ask the deployed payer").count();
    let mut starved = 0;
    for millions in 16..=30 {
        cap_gas(&bench, millions * MILLION);
        let before = not_asked();
        let (status, body) = bench.client.verify(payment.body()).await.unwrap();
        match status {
            200 => assert_eq!(body["isValid"], true, "{millions} million: {body}"),
            _ => bench.undecided(&payment, &format!("{millions} million")).await,
        }
        starved += usize::from(not_asked() > before);
        bench.proxy.clear();
        assert!(is_valid(&bench, &payment).await, "after {millions} million");
    }
    assert!(starved > 0, "the question was never starved:\n{}", bench.server.log_text());
    assert!(is_valid(&bench, &payment).await);
    bench.settles(&payment, "with all the gas").await;
}
