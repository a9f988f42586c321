//! Facts at the edges, one by one, where no row of data reaches: what a contract did not answer, and balances.

use crate::support::{
    CHAIN_ID, NOW, address, eip712, policy, served,
    steps::{self, Base},
};
use alloy_primitives::{Address, B256, U256, b256};
use quittance_protocol::{
    code::Code,
    facts::{ChainFacts, Erc1271Answer, PayerCode, Simulation},
    payment::{fingerprint, replay_key},
    rules::{Policy, VerifiedPayment, check, check_offline},
    scheme::exact_eip3009::{
        MULTICALL3, TRANSFER_TOPIC, deployable, deploying_calls, direct_calls, gas_limit,
        is_promised_transfer,
    },
    units::{TokenAmount, UnixSeconds},
    wire::{Refusal, Request, Version, parse},
};

const MAGIC: B256 = b256!("1626ba7e00000000000000000000000000000000000000000000000000000000");

/// A request that every rule accepts, its facts and its policy.
fn scene(base: Base) -> (Request, ChainFacts, Policy) {
    let (terms, chain) = steps::base(base, Version::V2);
    let request = parse(&terms.body(), &served()).expect("a request");
    let policy = policy();
    let facts = chain.facts(&request, &policy);
    (request, facts, policy)
}

fn judge(request: &Request, facts: &ChainFacts, policy: &Policy) -> Result<VerifiedPayment, Refusal> {
    check(request, facts, policy, UnixSeconds(NOW))
}

/// The code after one change of the facts of an ordinary payment; `None`: accepted.
fn code(base: Base, change: impl FnOnce(&mut ChainFacts)) -> Option<Code> {
    let (request, mut facts, policy) = scene(base);
    change(&mut facts);
    judge(&request, &facts, &policy).err().map(|r| r.code)
}

fn eoa(change: impl FnOnce(&mut ChainFacts)) -> Option<Code> {
    code(Base::Eoa, change)
}

#[test]
fn the_magic_value_is_a_whole_word() {
    let answer = |success, return_size, word| Erc1271Answer { success, return_size, word }.is_magic();
    assert!(answer(true, 32, MAGIC));
    assert!(answer(true, 1_000_000, MAGIC), "what follows the word is nobody's business");
    assert!(!answer(false, 32, MAGIC), "a revert is no answer");
    assert!(!answer(true, 31, MAGIC));
    assert!(!answer(true, 4, MAGIC));
    assert!(!answer(true, 0, B256::ZERO));
    for byte in 0..32 {
        let mut word = MAGIC;
        word[byte] ^= 1;
        assert!(!answer(true, 32, word), "byte {byte}");
    }
}

#[test]
fn code_at_the_payer_decides_which_proof_counts() {
    let magic = Some(Erc1271Answer { success: true, return_size: 32, word: MAGIC });
    let refused = Some(Erc1271Answer { success: true, return_size: 32, word: B256::repeat_byte(0xff) });
    for payer_code in [PayerCode::Contract, PayerCode::Delegated(address("delegate"))] {
        for (erc1271, expected) in
            [(magic, None), (refused, Some(Code::Signature)), (None, Some(Code::Signature))]
        {
            // The ECDSA signature of the base payment is right, and must not help.
            let got = eoa(|f| {
                f.payer_code = payer_code;
                f.erc1271 = erc1271;
            });
            assert_eq!(got, expected, "{payer_code:?} {erc1271:?}");
        }
    }
    // And without code no wallet's answer helps.
    let (mut request, mut facts, policy) = scene(Base::Eoa);
    request.payment.authorization.nonce.0 = B256::repeat_byte(9);
    facts.erc1271 = magic;
    assert_eq!(judge(&request, &facts, &policy).map_err(|r| r.code).err(), Some(Code::Signature));
    assert!(PayerCode::Empty.is_empty());
    assert!(!PayerCode::Contract.is_empty() && !PayerCode::Delegated(Address::ZERO).is_empty());
}

#[test]
fn a_payer_with_code_pays_by_the_direct_call_even_from_a_wrapper() {
    let (request, mut facts, policy) = scene(Base::Undeployed);
    facts.payer_code = PayerCode::Contract;
    facts.erc1271 = Some(Erc1271Answer { success: true, return_size: 32, word: MAGIC });
    facts.direct = vec![Simulation { gas_used: 5, ..facts.deploying[0].clone() }];
    let verified = judge(&request, &facts, &policy).expect("valid");
    assert_eq!(verified.call().0, request.requirement.asset);
}

#[test]
fn a_counterfactual_payer_pays_by_the_deployment() {
    let (request, facts, policy) = scene(Base::Undeployed);
    let wrapper = deployable(&request.payment, &policy.wallet_factories).expect("deployable");
    let call = deploying_calls(&request.payment, request.requirement.asset, wrapper).remove(0);
    let verified = judge(&request, &facts, &policy).expect("valid");
    assert_eq!(verified.call(), (MULTICALL3, &call.data));
    // A wrapper whose deployment nobody simulated is no evidence, nor is a direct call that works.
    let (request, mut facts, policy) = scene(Base::Undeployed);
    facts.direct = std::mem::take(&mut facts.deploying);
    let refusal = judge(&request, &facts, &policy).expect_err("refused");
    assert_eq!(refusal.code, Code::UndeployedSmartWallet);
    // A wallet that appears but says no, or was never asked.
    let no = Erc1271Answer { success: true, return_size: 32, word: B256::ZERO };
    for answer in [None, Some(no)] {
        let got = code(Base::Undeployed, |f| f.deploying.iter_mut().for_each(|s| s.erc1271_after = answer));
        assert_eq!(got, Some(Code::Signature));
    }
}

#[test]
fn the_deployment_alone_explains_and_never_pays() {
    let (request, mut facts, policy) = scene(Base::Undeployed);
    let worked = facts.deploying[0].clone();
    let failed = Simulation { success: false, pay_to_balance_after: None, ..worked.clone() };
    let no_code = Simulation { payer_has_code_after: false, erc1271_after: None, ..worked.clone() };
    let no_word = Simulation { erc1271_after: None, ..worked.clone() };
    let reverted = Simulation { payer_has_code_after: false, ..failed.clone() };
    for (alone, code, says) in [
        (Some(reverted), Code::SmartWalletDeploymentFailed, "reverts"),
        (Some(no_code), Code::SmartWalletDeploymentFailed, "leaves no code"),
        (Some(no_word), Code::Signature, "magic value"),
        // The wallet is there and knows the signature: then it is the transfer that fails.
        (Some(worked), Code::SimulationFailed, "transfer reverts"),
        (None, Code::SimulationFailed, "transfer reverts"),
    ] {
        facts.deploying = vec![failed.clone(), failed.clone()];
        facts.deploying.extend(alone);
        let refusal = judge(&request, &facts, &policy).expect_err("nothing was transferred");
        assert_eq!(refusal.code, code, "{refusal:?}");
        assert!(refusal.message.contains(says), "{refusal:?}");
    }
}

#[test]
fn the_verified_payment_is_the_call_that_succeeded() {
    let (request, mut facts, policy) = scene(Base::Eoa);
    let calls = direct_calls(&request.payment, request.requirement.asset);
    let worked = facts.direct[0].clone();
    let failed = Simulation { success: false, pay_to_balance_after: None, ..worked.clone() };
    for (simulations, index) in [
        (vec![Simulation { gas_used: 100, ..worked.clone() }], 0),
        (vec![failed.clone(), Simulation { gas_used: 200, ..worked.clone() }], 1),
    ] {
        facts.direct = simulations;
        let gas = facts.direct[index].gas_used;
        let verified = judge(&request, &facts, &policy).expect("valid");
        assert_eq!(verified.call(), (request.requirement.asset, &calls[index].data));
        assert_eq!(verified.gas_limit(), gas_limit(&calls[index].data, gas));
        assert_eq!(verified.block_number(), facts.block.number);
        let (terms, a) = (verified.terms(), &request.payment.authorization);
        assert_eq!(terms.key, replay_key(&request.payment, &request.requirement));
        assert_eq!(terms.fingerprint, fingerprint(&request.payment, &request.requirement));
        assert_eq!((terms.pay_to, terms.amount), (a.to, a.value));
        assert_eq!((terms.valid_after, terms.valid_before), (a.valid_after, a.valid_before));
    }
    // Nothing simulated is nothing proven; success of a call nobody proposed neither.
    facts.direct = vec![];
    assert!(judge(&request, &facts, &policy).is_err());
    facts.direct = vec![failed.clone(), failed, worked];
    assert!(judge(&request, &facts, &policy).is_err());
}

#[test]
fn gas_up_to_the_bound_is_accepted() {
    let (request, facts, mut policy) = scene(Base::Eoa);
    let needed = judge(&request, &facts, &policy).expect("valid").gas_limit();
    policy.gas_per_settlement_max = needed;
    assert!(judge(&request, &facts, &policy).is_ok());
    policy.gas_per_settlement_max = needed - 1;
    let refusal = judge(&request, &facts, &policy).expect_err("too dear");
    assert_eq!(refusal.code, Code::SimulationFailed);
}

#[test]
fn the_nonce_must_be_read_as_unused() {
    assert_eq!(eoa(|f| f.authorization_state = Some(false)), None);
    assert_eq!(eoa(|f| f.authorization_state = Some(true)), Some(Code::NonceAlreadyUsed));
    assert_eq!(eoa(|f| f.authorization_state = None), Some(Code::Eip3009NotSupported));
}

#[test]
fn balances_at_their_edges() {
    let amount = U256::from(10_000);
    for (balance, expected) in [
        (Some(amount), None),
        (Some(U256::MAX), None),
        (Some(amount - U256::from(1)), Some(Code::InsufficientBalance)),
        (Some(U256::ZERO), Some(Code::InsufficientBalance)),
        // A token that tells no balance is judged by the simulation.
        (None, None),
    ] {
        assert_eq!(eoa(|f| f.payer_balance = balance), expected, "{balance:?}");
    }
}

#[test]
fn the_recipient_gets_exactly_the_amount() {
    let amount = U256::from(10_000);
    let one = U256::from(1);
    for (before, after, moved) in [
        (Some(U256::ZERO), Some(amount), true),
        (Some(U256::ZERO), Some(amount - one), false),
        (Some(U256::ZERO), Some(amount + one), false),
        (Some(U256::ZERO), Some(U256::ZERO), false),
        (Some(U256::MAX - amount), Some(U256::MAX), true),
        // One more would wrap: no balance can prove that.
        (Some(U256::MAX - amount + one), Some(U256::ZERO), false),
        (Some(U256::MAX), Some(amount - one), false),
        // What was not read proves nothing, not even together.
        (None, None, false),
        (None, Some(amount), false),
        (Some(U256::ZERO), None, false),
    ] {
        let got = eoa(|f| {
            f.pay_to_balance = before;
            f.direct[0].pay_to_balance_after = after;
        });
        assert_eq!(got.is_none(), moved, "{before:?} {after:?}");
        assert!(moved || got == Some(Code::TransferEventMismatch));
    }
}

#[test]
fn paying_oneself_moves_nothing() {
    let (mut terms, chain) = steps::base(Base::Eoa, Version::V2);
    terms.pay_to = terms.message.from;
    terms.message.to = terms.message.from;
    let request = parse(&terms.body(), &served()).expect("a request");
    let mut facts = chain.facts(&request, &policy());
    assert!(judge(&request, &facts, &policy()).is_ok());
    let balance = facts.pay_to_balance.expect("a balance");
    for after in [balance + terms.amount, balance - terms.amount] {
        facts.direct[0].pay_to_balance_after = Some(after);
        let refusal = judge(&request, &facts, &policy()).expect_err("a strange token");
        assert_eq!(refusal.code, Code::TransferEventMismatch);
    }
}

/// Every combination of what a token may say about its domain, with the transfer working and failing.
#[test]
fn the_domain_is_believed_in_its_order() {
    let own = |name: &str, version: &str| eip712::Domain {
        name: name.into(),
        version: version.into(),
        chain_id: CHAIN_ID,
        verifying_contract: address("token"),
    };
    let declared = own("USDC", "2").separator();
    let another = own("USD Coin", "2").separator();
    let told = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
    let text = |s: &str| Some(s.to_owned());
    let (name, version) = (Some(Code::TokenNameMismatch), Some(Code::TokenVersionMismatch));
    let failed = Some(Code::SimulationFailed);
    // separator, EIP-5267, name(), version() => code when the transfer works, code when it fails
    let table = [
        // An equal separator proves every field; what the getters say is another matter.
        (Some(declared), None, text("USDC"), text("2"), None, failed),
        (Some(declared), told("USD Coin", "1"), text("USD Coin"), text("1"), None, failed),
        (Some(declared), None, None, None, None, failed),
        // Another separator: the first part that is told and differs, else the suspect when the transfer fails.
        (Some(another), None, text("USD Coin"), text("2"), name, name),
        (Some(another), None, text("USDC"), text("1"), version, version),
        (Some(another), None, text("USD Coin"), text("1"), name, name),
        (Some(another), None, text("USDC"), text("2"), None, failed),
        (Some(another), None, text("USDC"), None, None, version),
        (Some(another), None, None, text("2"), None, name),
        (Some(another), None, None, text("1"), version, version),
        (Some(another), None, None, None, None, name),
        (Some(another), told("USD Coin", "2"), text("USDC"), text("2"), name, name),
        (Some(another), told("USDC", "1"), text("USDC"), text("2"), version, version),
        (Some(another), told("USDC", "2"), text("USD Coin"), text("1"), None, failed),
        (Some(another), told("USDC", "2"), None, None, None, failed),
        // No separator: EIP-5267 decides; the getters only explain.
        (None, told("USDC", "2"), text("USD Coin"), text("1"), None, failed),
        (None, told("USD Coin", "2"), text("USDC"), text("2"), name, name),
        (None, told("USDC", "1"), text("USDC"), text("2"), version, version),
        (None, None, text("USD Coin"), text("2"), None, name),
        (None, None, text("USDC"), text("1"), None, version),
        (None, None, text("USDC"), text("2"), None, failed),
        (None, None, None, None, None, failed),
    ];
    for (separator, eip5267, token_name, token_version, works, fails) in table {
        let apply = |f: &mut ChainFacts, success: bool| {
            f.domain_separator = separator;
            f.eip5267.clone_from(&eip5267);
            f.token_name.clone_from(&token_name);
            f.token_version.clone_from(&token_version);
            f.direct[0].success = success;
        };
        let row = format!("{separator:?} {eip5267:?} {token_name:?} {token_version:?}");
        assert_eq!(eoa(|f| apply(f, true)), works, "{row}");
        assert_eq!(eoa(|f| apply(f, false)), fails, "{row}");
    }
}

#[test]
fn shared_contracts_never_pay_whatever_the_policy_lists() {
    use quittance_protocol::scheme::exact_eip3009::{EXACT_PERMIT2_PROXY, PERMIT2, UPTO_PERMIT2_PROXY};
    let (request, _, mut policy) = scene(Base::Eoa);
    policy.forbidden_payers = vec![];
    assert!(check_offline(&request, &policy, UnixSeconds(NOW)).is_ok());
    for payer in [PERMIT2, EXACT_PERMIT2_PROXY, UPTO_PERMIT2_PROXY, MULTICALL3] {
        let mut request = request.clone();
        request.payment.authorization.from = payer;
        let refusal = check_offline(&request, &policy, UnixSeconds(NOW)).expect_err("refused");
        assert_eq!(refusal.code, Code::InvalidPayload);
    }
    policy.forbidden_payers = vec![request.payment.authorization.from];
    assert!(check_offline(&request, &policy, UnixSeconds(NOW)).is_err());
}

#[test]
fn a_clock_at_the_end_of_time_does_not_wrap() {
    let (mut request, _, policy) = scene(Base::Eoa);
    request.payment.authorization.valid_before = U256::MAX;
    request.payment.authorization.valid_after = U256::ZERO;
    assert!(check_offline(&request, &policy, UnixSeconds(u64::MAX)).is_ok());
    assert_eq!(UnixSeconds(u64::MAX - 1).saturating_add(6), UnixSeconds(u64::MAX));
    assert_eq!(UnixSeconds(1).saturating_add(6), UnixSeconds(7));
}

#[test]
fn a_promised_transfer_is_a_transfer_of_exactly_this_payment() {
    let (request, ..) = scene(Base::Eoa);
    let a = request.payment.authorization;
    let topics = [TRANSFER_TOPIC, a.from.into_word(), a.to.into_word()];
    let data = a.value.0.to_be_bytes::<32>();
    assert!(is_promised_transfer(&topics, &data, &a));
    for i in 0..3 {
        let mut wrong = topics;
        wrong[i][31] ^= 1;
        assert!(!is_promised_transfer(&wrong, &data, &a), "topic {i}");
    }
    assert!(!is_promised_transfer(&topics[..2], &data, &a));
    assert!(!is_promised_transfer(&[topics.as_slice(), &[B256::ZERO]].concat(), &data, &a));
    assert!(!is_promised_transfer(&topics, &data[1..], &a));
    assert!(!is_promised_transfer(&topics, &[data.as_slice(), &[0; 32]].concat(), &a));
    let more =
        quittance_protocol::payment::Authorization { value: TokenAmount(a.value.0 + U256::from(1)), ..a };
    assert!(!is_promised_transfer(&topics, &data, &more));
}
