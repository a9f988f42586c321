//! Tokens that are not USDC.

use super::cast::{Cast, EOA, Kind, STRANGER};
use crate::support::offline::VERSIONS;
use alloy_primitives::{Address, Bytes, U256, keccak256};
use quittance_testkit::{DevChain, SignedPayment, dev_address, dev_signer, payment::high_s_twin};

const UNSUPPORTED: &str = "invalid_exact_evm_eip3009_not_supported";
const MISMATCH: &str = "invalid_exact_evm_transfer_event_mismatch";
const SIMULATION: &str = "invalid_exact_evm_transaction_simulation_failed";
const NO_CODE: &str = "asset_not_deployed_contract";
const NAME: &str = "invalid_exact_evm_token_name_mismatch";
const VERSION: &str = "invalid_exact_evm_token_version_mismatch";

/// One call of a function without arguments, or with words as arguments, by anybody.
async fn invoke(chain: &DevChain, to: Address, signature: &str, words: &[U256]) {
    let mut data = keccak256(signature)[..4].to_vec();
    words.iter().for_each(|word| data.extend_from_slice(&word.to_be_bytes::<32>()));
    let receipt = chain.send(dev_address(STRANGER), Some(to), Bytes::from(data)).await.unwrap();
    assert!(receipt.success, "{signature}");
}

fn word(address: Address) -> U256 {
    U256::from_be_slice(address.as_slice())
}

async fn token(cast: &Cast, name: &str) -> Address {
    let token = cast.bench.chain.deploy_token(name).await.unwrap();
    cast.fund(token).await;
    token
}

async fn pay(
    cast: &Cast,
    kind: Kind,
    token: Address,
    version: quittance_testkit::X402Version,
) -> SignedPayment {
    cast.sign(kind, cast.bench.payment(version).await.asset(token)).await
}

/// Rule 1 holds whatever the token would take.
#[tokio::test]
async fn a_token_that_takes_high_s_does_not_change_the_rule() {
    let cast = Cast::start().await;
    let token = token(&cast, "LenientToken").await;
    for version in VERSIONS {
        let builder = cast.bench.payment(version).await.asset(token);
        let twin = cast.sign_as(Kind::Eoa, builder, None, |signature| high_s_twin(&signature).unwrap()).await;
        assert!(cast.executes(&twin).await, "the token takes it");
        cast.bench.refused(&twin, "invalid_exact_evm_non_canonical_signature", "twin").await;
        let payment = pay(&cast, Kind::Eoa, token, version).await;
        cast.bench.accepted(&payment, "low s").await;
    }
}

/// One overload and plain `ecrecover`: keys can pay, contracts cannot.
#[tokio::test]
async fn a_token_with_the_split_overload_alone() {
    let cast = Cast::start().await;
    let token = token(&cast, "VrsOnlyToken").await;
    for version in VERSIONS {
        let payment = pay(&cast, Kind::Eoa, token, version).await;
        assert!(cast.executes_split(&payment).await);
        cast.bench.accepted(&payment, "a key").await;
        for kind in [Kind::Wallet, Kind::LongWallet] {
            let payment = pay(&cast, kind, token, version).await;
            assert!(!cast.executes(&payment).await, "{kind:?}");
            cast.bench.refused(&payment, SIMULATION, &format!("{kind:?}")).await;
        }
        // Its key signs for it, and this token asks no contract.
        let payment = pay(&cast, Kind::Delegated, token, version).await;
        assert!(cast.executes_split(&payment).await);
        cast.bench.accepted(&payment, "a delegated account").await;
    }
}

#[tokio::test]
async fn a_token_with_the_bytes_overload_alone() {
    let cast = Cast::start().await;
    let token = token(&cast, "BytesOnlyToken").await;
    for version in VERSIONS {
        for kind in [Kind::Eoa, Kind::Wallet, Kind::LongWallet, Kind::Delegated] {
            let payment = pay(&cast, kind, token, version).await;
            assert!(cast.executes(&payment).await, "{kind:?}");
            cast.bench.accepted(&payment, &format!("{kind:?}")).await;
        }
    }
}

/// They take the payment, use up the nonce, and do not deliver what was promised.
#[tokio::test]
async fn tokens_that_do_not_move_the_amount_are_refused() {
    let cast = Cast::start().await;
    for name in ["FeeOnTransferToken", "SilentToken"] {
        let token = token(&cast, name).await;
        for version in VERSIONS {
            for kind in [Kind::Eoa, Kind::Wallet, Kind::LongWallet, Kind::Delegated] {
                let payment = pay(&cast, kind, token, version).await;
                assert!(!cast.executes(&payment).await, "{name} {kind:?}");
                cast.bench.refused(&payment, MISMATCH, &format!("{name} {kind:?}")).await;
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_token_of_this_kind_is_refused() {
    let cast = Cast::start().await;
    let plain = token(&cast, "PlainToken").await;
    for version in VERSIONS {
        for kind in [Kind::Eoa, Kind::Wallet, Kind::Delegated] {
            for (what, asset, code) in [
                ("an ERC-20 token", plain, UNSUPPORTED),
                ("another contract", cast.bench.chain.wallet_factory, UNSUPPORTED),
                ("the payer's wallet", cast.wallet, UNSUPPORTED),
                ("a key", dev_address(STRANGER), NO_CODE),
                ("nobody", Address::repeat_byte(0x99), NO_CODE),
                ("zero", Address::ZERO, NO_CODE),
                // They answer any call with success.
                ("a precompile", Address::with_last_byte(4), NO_CODE),
            ] {
                let payment = pay(&cast, kind, asset, version).await;
                cast.bench.refused(&payment, code, &format!("{kind:?} {what}")).await;
            }
        }
    }
}

/// A delegated account has 23 bytes of code and may be named as the asset.
#[tokio::test]
async fn an_account_with_borrowed_code_is_no_token() {
    let cast = Cast::start().await;
    let account = dev_address(STRANGER);
    cast.bench.chain.set_7702_code(account, cast.wallet).await.unwrap();
    for version in VERSIONS {
        let payment = pay(&cast, Kind::Eoa, account, version).await;
        cast.bench.refused(&payment, UNSUPPORTED, "a delegated account").await;
    }
}

/// Gas: what a transfer takes is allowed up to the operator's bound, and a transfer that never ends is refused.
#[tokio::test]
async fn a_hungry_token_is_accepted_up_to_the_bound() {
    let cast = Cast::start().await;
    let token = token(&cast, "GrowingGasToken").await;
    for version in VERSIONS {
        for (extra, accepted) in
            [(0_u64, true), (2_000_000, true), (2_600_000, false), (3_500_000, false), (u64::MAX, false)]
        {
            invoke(&cast.bench.chain, token, "setExtraGas(uint256)", &[U256::from(extra)]).await;
            let payment = pay(&cast, Kind::Eoa, token, version).await;
            let case = format!("{version:?} {extra} gas more");
            if accepted {
                assert!(cast.executes(&payment).await, "{case}");
                cast.bench.accepted(&payment, &case).await;
            } else {
                cast.bench.refused(&payment, SIMULATION, &case).await;
            }
        }
    }
}

/// EIP-5267 is the only thing this token says about its domain.
#[tokio::test]
async fn a_token_that_describes_its_domain_is_believed() {
    let cast = Cast::start().await;
    let token = token(&cast, "Eip5267Token").await;
    for version in VERSIONS {
        let payment = pay(&cast, Kind::Eoa, token, version).await;
        assert!(cast.executes(&payment).await);
        cast.bench.accepted(&payment, "right").await;
    }
    wrong_domains(&cast, token).await;
}

#[tokio::test]
async fn a_domain_that_is_not_the_tokens_is_named() {
    let cast = Cast::start().await;
    wrong_domains(&cast, cast.bench.chain.token).await;
}

async fn wrong_domains(cast: &Cast, token: Address) {
    let long = "n".repeat(10_000);
    for version in VERSIONS {
        for kind in [Kind::Eoa, Kind::Wallet, Kind::Delegated] {
            for (name, domain_version, code) in [
                ("USD Coin", "2", NAME),
                ("usdc", "2", NAME),
                ("USDC ", "2", NAME),
                ("USD Coin", "1", NAME),
                (long.as_str(), "2", NAME),
                ("USDC", "1", VERSION),
                ("USDC", "2.2", VERSION),
                ("USDC", " 2", VERSION),
            ] {
                let builder = cast.bench.payment(version).await.asset(token).domain(name, domain_version);
                let payment = cast.sign(kind, builder).await;
                let case = format!("{kind:?} {name:.20?} {domain_version:?}");
                cast.bench.refused(&payment, code, &case).await;
                assert!(!cast.executes(&payment).await, "{case}");
            }
        }
    }
}

/// A token may carry any text as its name; of it, an answer shows what is harmless.
#[tokio::test]
async fn a_tokens_name_is_shown_tame() {
    let cast = Cast::start().await;
    let named = [
        format!("see https://evil.example/{}", "a".repeat(10)),
        format!("0x{}", "ab".repeat(65)),
        "\u{1b}[31m\u{202e}\r\nRefund: success".to_owned(),
        "x".repeat(400),
        "\"},{\"isValid\":true".to_owned(),
    ];
    for name in named {
        let token = cast.bench.chain.deploy_token_as("Eip5267Token", &name, "2").await.unwrap();
        cast.fund(token).await;
        let payment = pay(&cast, Kind::Eoa, token, quittance_testkit::X402Version::V2).await;
        cast.bench.refused(&payment, NAME, &name).await;
        let answer = cast.bench.client.post("/verify", payment.body(), &[]).await.unwrap();
        let message = answer.json["invalidMessage"].as_str().unwrap();
        for bad in ["://", "\u{1b}", "\u{202e}", "\n", &"ab".repeat(30), &"x".repeat(200)] {
            assert!(!message.contains(bad), "{message:?}");
        }
        // Under its own name it is a token like any other.
        let own = cast
            .bench
            .payment(quittance_testkit::X402Version::V2)
            .await
            .asset(token)
            .domain(name.clone(), "2");
        cast.bench.accepted(&cast.sign(Kind::Eoa, own).await, &name).await;
    }
}

#[tokio::test]
async fn a_paused_token_and_a_deny_list_have_their_names() {
    let cast = Cast::start().await;
    let chain = &cast.bench.chain;
    let (paused, denied) = ("invalid_exact_evm_token_paused", "invalid_exact_evm_account_blacklisted");
    for version in VERSIONS {
        for kind in Kind::ALL {
            let case = format!("{version:?} {kind:?}");
            let payment = pay(&cast, kind, chain.token, version).await;
            for (who, undo) in [(payment.payer(), true), (payment.recipient(), true)] {
                invoke(chain, chain.token, "blacklist(address)", &[word(who)]).await;
                assert!(!cast.executes(&payment).await, "{case}");
                cast.bench.refused_for(&payment, denied, &case).await;
                if undo {
                    invoke(chain, chain.token, "unBlacklist(address)", &[word(who)]).await;
                }
            }
            invoke(chain, chain.token, "pause()", &[]).await;
            assert!(!cast.executes(&payment).await, "{case}");
            cast.bench.refused_for(&payment, paused, &case).await;
            invoke(chain, chain.token, "unpause()", &[]).await;
            cast.bench.accepted(&payment, &case).await;
        }
    }
}

#[tokio::test]
async fn a_payer_without_the_money_is_refused() {
    let cast = Cast::start().await;
    let code = "invalid_exact_evm_insufficient_balance";
    for version in VERSIONS {
        for kind in Kind::ALL {
            let all = cast.sign(kind, cast.bench.payment(version).await.amount(500_000)).await;
            let case = format!("{version:?} {kind:?}");
            let more = cast.sign(kind, cast.bench.payment(version).await.amount(2_000_000_000)).await;
            cast.bench.refused(&more, code, &format!("{case} more than there is")).await;
            assert!(!cast.executes(&more).await, "{case}");
            let max = cast.sign(kind, cast.bench.payment(version).await.amount(U256::MAX)).await;
            cast.bench.refused(&max, code, &format!("{case} all there could be")).await;
            if version == quittance_testkit::X402Version::V2 {
                cast.bench.accepted(&all, &case).await;
            }
        }
        let poor = cast.bench.payment(version).await.payer(dev_signer(STRANGER)).amount(1).sign();
        cast.bench.refused(&poor, code, "never had a cent").await;
    }
}

/// To oneself, and nothing at all: odd, and no reason to say no.
#[tokio::test]
async fn odd_payments_that_execute_are_accepted() {
    let cast = Cast::start().await;
    for version in VERSIONS {
        let own = dev_signer(EOA).address();
        let to_self = cast.bench.payment(version).await.pay_to(own).sign();
        assert!(cast.executes(&to_self).await);
        let answer = cast.bench.client.post("/verify", to_self.body(), &[]).await.unwrap();
        assert_eq!(answer.json["isValid"], true, "{}", answer.text);
        let answer = cast.bench.client.post("/settle", to_self.body(), &[]).await.unwrap();
        assert_eq!(answer.json["success"], true, "{}", answer.text);
        for pay_to in [cast.bench.chain.token, dev_address(0), cast.wallet] {
            let payment = cast.bench.payment(version).await.pay_to(pay_to).sign();
            assert!(cast.executes(&payment).await, "{pay_to}");
            cast.bench.accepted(&payment, &format!("to {pay_to}")).await;
        }
        let nothing = cast.bench.payment(version).await.amount(0).sign();
        assert!(cast.executes(&nothing).await);
        cast.bench.accepted(&nothing, "nothing").await;
    }
}
