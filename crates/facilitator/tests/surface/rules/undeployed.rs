//! Wallets that are not there yet, and the wrapper that is to put them there (ERC-6492).

use super::cast::{Cast, Kind, OWNER};
use crate::support::offline::VERSIONS;
use alloy_primitives::{Address, Bytes, U256};
use quittance_testkit::{
    DevChain, SignedPayment, X402Version, dev_address, dev_signer,
    payment::{ERC6492_SUFFIX, erc6492, high_s_twin},
};

const UNDEPLOYED: &str = "invalid_exact_evm_payload_undeployed_smart_wallet";
const NOT_ALLOWED: &str = "eip6492_factory_not_allowed";
const FAILED: &str = "smart_wallet_deployment_failed";
const SIGNATURE: &str = "invalid_exact_evm_signature";

/// A payment of an undeployed wallet, and what deploys it.
struct Future {
    payment: SignedPayment,
    create: Bytes,
}

async fn future(cast: &Cast, version: X402Version) -> Future {
    let owner = dev_signer(OWNER);
    let salt = cast.salt();
    let create = DevChain::wallet_calldata(owner.address(), salt);
    let wallet = cast.undeployed(salt).await;
    Future { payment: cast.bench.payment(version).await.wallet(wallet, owner).sign(), create }
}

#[tokio::test]
async fn an_allowed_factory_deploys_and_pays_in_one_transaction() {
    let cast = Cast::start().await;
    let chain = &cast.bench.chain;
    for version in VERSIONS {
        let Future { payment, create } = future(&cast, version).await;
        let wallet = payment.payer();
        let wrapped = payment.clone().erc6492(chain.wallet_factory, &create);
        let (height, sent) =
            (chain.client().block_number().await.unwrap(), cast.bench.proxy.count("eth_sendRawTransaction"));
        cast.bench.accepted(&wrapped, "undeployed").await;
        assert!(!chain.code(wallet).await.unwrap().is_empty());
        assert_eq!(chain.client().block_number().await.unwrap(), height + 1, "one transaction");
        assert_eq!(cast.bench.proxy.count("eth_sendRawTransaction"), sent + 1);

        // Now it is there: the wrapper is only paper around the signature, and the bare signature will do.
        let wrapped = cast.bench.payment(version).await.wallet(wallet, dev_signer(OWNER)).sign();
        cast.bench.accepted(&wrapped.erc6492(chain.wallet_factory, &create), "deployed, wrapped").await;
        let bare = cast.bench.payment(version).await.wallet(wallet, dev_signer(OWNER)).sign();
        cast.bench.accepted(&bare, "deployed, bare").await;
        // Whoever the wrapper names: nobody is called any more.
        let strange = cast.bench.payment(version).await.wallet(wallet, dev_signer(OWNER)).sign();
        cast.bench
            .accepted(&strange.erc6492(dev_address(8), &Bytes::new()), "deployed, strange wrapper")
            .await;
    }
}

/// What has to be told about the factory, and in which shape.
#[tokio::test]
async fn every_shape_of_wrapper_has_its_answer() {
    let cast = Cast::start().await;
    let factory = cast.bench.chain.wallet_factory;
    for version in VERSIONS {
        let Future { payment, create } = future(&cast, version).await;
        let inner = payment.signature().clone();
        let twin = high_s_twin(&inner).unwrap();
        let (zero, nothing) = (Address::ZERO, Bytes::new());
        let good = erc6492(factory, &create, &inner);
        let body = &good[..good.len() - 32];
        let suffixed = |body: &[u8]| [body, ERC6492_SUFFIX.as_slice()].concat();
        let mut shifted = good.to_vec();
        shifted[63] += 0x20;
        let mut dirty = good.to_vec();
        dirty[0] = 1;
        let mut padded = good.to_vec();
        let last = padded.len() - 33;
        padded[last] = 1;
        for (case, bytes, code) in [
            ("bare", inner.to_vec(), SIGNATURE),
            ("bare, high s", twin.to_vec(), "invalid_exact_evm_non_canonical_signature"),
            ("no factory, no calldata", erc6492(zero, &nothing, &inner).to_vec(), UNDEPLOYED),
            ("no factory", erc6492(zero, &create, &inner).to_vec(), UNDEPLOYED),
            ("no calldata", erc6492(factory, &nothing, &inner).to_vec(), UNDEPLOYED),
            ("no calldata, high s", erc6492(factory, &nothing, &twin).to_vec(), UNDEPLOYED),
            ("another factory", erc6492(dev_address(8), &create, &inner).to_vec(), NOT_ALLOWED),
            ("the token as factory", erc6492(cast.bench.chain.token, &create, &inner).to_vec(), NOT_ALLOWED),
            (
                "Multicall3 as factory",
                erc6492(cast.bench.chain.multicall3, &create, &inner).to_vec(),
                NOT_ALLOWED,
            ),
            ("wrapped twice", erc6492(factory, &create, &good).to_vec(), UNDEPLOYED),
            ("the suffix alone", suffixed(&[]), UNDEPLOYED),
            ("a signature and the suffix", suffixed(&inner), UNDEPLOYED),
            ("the suffix as the end of 65 bytes", suffixed(&inner[..33]), UNDEPLOYED),
            ("a word too few", suffixed(&body[..body.len() - 32]), UNDEPLOYED),
            ("a word too many", suffixed(&[body, &[0; 32]].concat()), UNDEPLOYED),
            ("a byte too many", suffixed(&[body, &[0]].concat()), UNDEPLOYED),
            ("another offset", shifted, UNDEPLOYED),
            ("a dirty address", dirty, UNDEPLOYED),
            ("dirty padding", padded, UNDEPLOYED),
            ("half a suffix", good[..good.len() - 16].to_vec(), UNDEPLOYED),
            ("something behind it", [&good[..], &[0]].concat(), UNDEPLOYED),
        ] {
            let changed = payment.clone().with_signature(bytes);
            cast.bench.refused(&changed, code, &format!("{version:?} {case}")).await;
            assert!(!cast.executes(&changed).await, "{case}");
        }
        assert!(cast.bench.chain.code(payment.payer()).await.unwrap().is_empty());
        cast.bench.accepted(&payment.with_signature(good), &format!("{version:?} all of it")).await;
    }
}

/// A wrapper that deploys something, and not the payer.
#[tokio::test]
async fn a_factory_call_that_leaves_the_payer_without_code_is_refused() {
    let cast = Cast::start().await;
    let factory = cast.bench.chain.wallet_factory;
    for version in VERSIONS {
        let elsewhere = DevChain::wallet_calldata(dev_address(OWNER), cast.salt());
        let other_owner = DevChain::wallet_calldata(dev_address(8), cast.salt());
        let Future { payment, .. } = future(&cast, version).await;
        // The wallet of its owner, and a key: neither is what that call deploys.
        let key = cast.sign(Kind::Eoa, cast.bench.payment(version).await).await;
        for (case, payment, create) in [
            ("another salt", payment.clone(), elsewhere.clone()),
            ("another owner", payment, other_owner),
            ("a key", key, elsewhere),
        ] {
            let wrapped = payment.erc6492(factory, &create);
            cast.bench.refused(&wrapped, FAILED, &format!("{version:?} {case}")).await;
        }
    }
}

/// Calldata that the factory does not know, or refuses.
#[tokio::test]
async fn a_factory_call_that_fails_is_refused() {
    let cast = Cast::start().await;
    let factory = cast.bench.chain.wallet_factory;
    for version in VERSIONS {
        for create in [Bytes::from(vec![0]), Bytes::from(vec![0xff; 4]), Bytes::from(vec![0; 100])] {
            let Future { payment, .. } = future(&cast, version).await;
            let wrapped = payment.erc6492(factory, &create);
            cast.bench.refused(&wrapped, FAILED, &format!("{version:?} {create}")).await;
        }
    }
}

/// Nobody is on the list unless the operator says so.
#[tokio::test]
async fn without_an_allow_list_no_factory_is_called() {
    let bench = crate::support::online::Online::start_without_factories().await;
    let cast = Cast::on(bench).await;
    for version in VERSIONS {
        let payment = cast.sign(Kind::Undeployed, cast.bench.payment(version).await).await;
        cast.bench.refused(&payment, NOT_ALLOWED, &format!("{version:?}")).await;
        assert!(cast.bench.chain.code(payment.payer()).await.unwrap().is_empty());
    }
}

/// The wallet is deployed by somebody else between the verdict and the settlement.
#[tokio::test]
async fn a_wallet_deployed_in_between_still_pays() {
    let cast = Cast::start().await;
    let chain = &cast.bench.chain;
    for version in VERSIONS {
        let Future { payment, create } = future(&cast, version).await;
        let wrapped = payment.erc6492(chain.wallet_factory, &create);
        let answer = cast.bench.client.post("/verify", wrapped.body(), &[]).await.unwrap();
        assert_eq!(answer.json["isValid"], true, "{}", answer.text);
        assert!(chain.send(dev_address(8), Some(chain.wallet_factory), create).await.unwrap().success);
        cast.bench.settles(&wrapped, "deployed in between").await;
    }
    assert!(chain.balance_of(chain.token, dev_address(0)).await.unwrap() == U256::ZERO);
}
