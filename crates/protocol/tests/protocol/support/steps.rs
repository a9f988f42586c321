//! The checks in their order, each with a way to break it alone.

use super::{
    CHAIN_ID, NOW, address,
    chain::{Chain, Factory},
    keys::Key,
    policy, served,
    terms::Terms,
};
use alloy_primitives::{Address, U256};
use quittance_protocol::{
    code::Code,
    facts::{ChainFacts, Simulation},
    rules::{Policy, VerifiedPayment, check},
    scheme::exact_eip3009::PERMIT2,
    units::{Network, UnixSeconds},
    wire::{Refusal, Version, parse},
};
use serde_json::{Value, json};

/// Who pays when nothing is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Eoa,
    Undeployed,
}

/// How to break a step: before signing, on the finished body, on what the chain said, in what the operator set.
pub enum Break {
    Terms(fn(&mut Terms)),
    Body(fn(&mut Value, Version)),
    Facts(fn(&mut ChainFacts)),
    Policy(fn(&mut Policy)),
    PolicyAndTerms(fn(&mut Policy, &mut Terms)),
}

/// One check.
pub struct Step {
    /// Its name in docs/RULES.md.
    pub name: &'static str,
    pub code: Code,
    /// Under version 1, when it is another.
    pub v1_code: Option<Code>,
    /// Part of its message: codes are shared, messages are not.
    pub says: &'static str,
    /// Only with this payer.
    pub base: Option<Base>,
    pub how: Break,
}

/// Steps that cannot both be broken.
const EXCLUSIVE: &[(&str, &str)] =
    &[("window end", "lifetime"), ("block window end", "block window start"), ("EIP-3009", "nonce")];

const fn step(name: &'static str, code: Code, says: &'static str, how: Break) -> Step {
    Step { name, code, v1_code: None, says, base: None, how }
}

const fn only(base: Base, step: Step) -> Step {
    Step { base: Some(base), ..step }
}

/// The precedence: of all broken steps, the first is reported.
pub const STEPS: &[Step] = &[
    step(
        "version",
        Code::InvalidX402Version,
        "x402Version",
        Break::Body(|body, _| put(body, "/x402Version", json!(3))),
    ),
    step(
        "payload schema",
        Code::InvalidPayload,
        "paymentPayload.payload is missing",
        Break::Body(|body, _| {
            put(body, "/paymentPayload/payload", Value::Null);
        }),
    ),
    step(
        "requirements schema",
        Code::InvalidPaymentRequirements,
        "paymentRequirements.maxTimeoutSeconds is missing",
        Break::Body(|body, _| put(body, "/paymentRequirements/maxTimeoutSeconds", Value::Null)),
    ),
    step(
        "scheme served",
        Code::UnsupportedScheme,
        "exact",
        Break::Body(|body, _| {
            put(body, "/paymentRequirements/scheme", json!("upto"));
        }),
    ),
    step(
        "network served",
        Code::InvalidNetwork,
        "/supported",
        Break::Body(|body, _| {
            put(body, "/paymentRequirements/network", json!("eip155:424242"));
        }),
    ),
    step(
        "scheme agrees",
        Code::ExactScheme,
        "scheme differs",
        Break::Body(|body, version| {
            put(body, &format!("{}/scheme", kind(version)), json!("other"));
        }),
    ),
    step(
        "network agrees",
        Code::NetworkMismatch,
        "network differs",
        Break::Body(|body, version| {
            put(body, &format!("{}/network", kind(version)), json!("eip155:1"));
        }),
    ),
    step(
        "requirements values",
        Code::InvalidPaymentRequirements,
        "payTo must not be the zero address",
        Break::Body(|body, _| put(body, "/paymentRequirements/payTo", json!(Address::ZERO.to_string()))),
    ),
    step(
        "verifying contract",
        Code::UnsupportedPayloadType,
        "verifyingContract",
        Break::Body(|body, _| {
            put(body, "/paymentRequirements/extra/verifyingContract", json!("0x00"));
        }),
    ),
    step(
        "payload shape",
        Code::UnsupportedPayloadType,
        "Permit2 payloads",
        Break::Body(|body, _| {
            put(body, "/paymentPayload/payload/permit2Authorization", json!({}));
        }),
    ),
    step(
        "authorization values",
        Code::InvalidPayload,
        "validBefore must be a decimal",
        Break::Body(|body, _| {
            put(body, "/paymentPayload/payload/authorization/validBefore", json!("0x1"));
        }),
    ),
    step("domain declared", Code::MissingEip712Domain, "must name", Break::Terms(|t| t.name = None)),
    step("payer allowed", Code::InvalidPayload, "shared by many", Break::Terms(|t| t.message.from = PERMIT2)),
    step("recipient", Code::RecipientMismatch, "payTo", Break::Terms(|t| t.message.to = address("other"))),
    Step {
        v1_code: Some(Code::ValueMismatchV1),
        ..step("amount", Code::ValueMismatch, "rule 4", Break::Terms(|t| t.message.value += U256::from(1)))
    },
    step(
        "window end",
        Code::ValidBefore,
        "seconds after 1800000000 (rule 3)",
        Break::Terms(|t| {
            t.message.valid_before = U256::from(NOW + 5);
        }),
    ),
    step(
        "window start",
        Code::ValidAfter,
        "must be before 1800000000 (rule 3)",
        Break::Terms(|t| {
            t.message.valid_after = U256::from(NOW);
        }),
    ),
    step(
        "lifetime",
        Code::ValidBefore,
        "the operator's bound",
        Break::PolicyAndTerms(|p, t| {
            p.authorization_lifetime_seconds_max = 600;
            t.message.valid_before = U256::from(NOW + 601);
        }),
    ),
    step(
        "chain read",
        Code::InvalidNetwork,
        "not the one to pay on",
        Break::Facts(|f| {
            f.block.network = Network::from_chain_id(CHAIN_ID + 1).expect("a chain id");
        }),
    ),
    step(
        "block window end",
        Code::ValidBefore,
        "seconds after 1800001000 (rule 3)",
        Break::Facts(|f| {
            f.block.timestamp = UnixSeconds(NOW + 1000);
        }),
    ),
    step(
        "block window start",
        Code::ValidAfter,
        "must be before 1799999000 (rule 3)",
        Break::Facts(|f| {
            f.block.timestamp = UnixSeconds(NOW - 1000);
        }),
    ),
    only(
        Base::Eoa,
        step(
            "canonical",
            Code::NonCanonicalSignature,
            "rule 1",
            Break::Terms(|t| t.signature = json!("high-s")),
        ),
    ),
    only(
        Base::Eoa,
        step(
            "signer",
            Code::Signature,
            "does not recover",
            Break::Terms(|t| t.key = Key::named("somebody else")),
        ),
    ),
    only(
        Base::Undeployed,
        step(
            "wrapper complete",
            Code::UndeployedSmartWallet,
            "brings no deployment",
            Break::Terms(|t| {
                t.signature["erc6492"]["calldata"] = json!("empty");
            }),
        ),
    ),
    only(
        Base::Undeployed,
        step(
            "factory listed",
            Code::FactoryNotAllowed,
            "allow-list",
            Break::Terms(|t| {
                t.signature["erc6492"]["factory"] = json!("unlisted:WalletFactory");
            }),
        ),
    ),
    step("asset code", Code::AssetNotDeployed, "no code", Break::Facts(|f| f.asset_has_code = false)),
    step(
        "EIP-3009",
        Code::Eip3009NotSupported,
        "authorizationState",
        Break::Facts(|f| {
            f.authorization_state = None;
        }),
    ),
    step("nonce", Code::NonceAlreadyUsed, "rule 5", Break::Facts(|f| f.authorization_state = Some(true))),
    step(
        "domain name",
        Code::TokenNameMismatch,
        "\"Another\"",
        Break::Facts(|f| {
            f.domain_separator = None;
            f.eip5267.get_or_insert(("USDC".into(), "2".into())).0 = "Another".into();
        }),
    ),
    step(
        "domain version",
        Code::TokenVersionMismatch,
        "\"9\"",
        Break::Facts(|f| {
            f.domain_separator = None;
            f.eip5267.get_or_insert(("USDC".into(), "2".into())).1 = "9".into();
        }),
    ),
    step(
        "balance",
        Code::InsufficientBalance,
        "balance is 9999",
        Break::Facts(|f| {
            f.payer_balance = Some(U256::from(9_999));
        }),
    ),
    only(
        Base::Undeployed,
        step(
            "wallet deployed",
            Code::SmartWalletDeploymentFailed,
            "leaves no code",
            Break::Facts(|f| {
                simulations(f, |s| s.payer_has_code_after = false);
            }),
        ),
    ),
    only(
        Base::Undeployed,
        step(
            "deployed wallet's signature",
            Code::Signature,
            "deployed payer's",
            Break::Facts(|f| {
                simulations(f, |s| s.erc1271_after = None);
            }),
        ),
    ),
    step(
        "simulation",
        Code::SimulationFailed,
        "reverts in simulation",
        Break::Facts(|f| {
            // Both ways to transfer fail; the deployment alone, tried last, does not.
            let alone = f.deploying.first().cloned();
            simulations(f, |s| s.success = false);
            if let (Some(alone), Some(failed)) = (alone, f.deploying.first().cloned()) {
                f.deploying = vec![failed.clone(), failed, alone];
            }
        }),
    ),
    step(
        "amount moved",
        Code::TransferEventMismatch,
        "exactly the amount",
        Break::Facts(|f| {
            simulations(f, |s| s.pay_to_balance_after = Some(U256::ZERO));
        }),
    ),
    step(
        "gas bound",
        Code::SimulationFailed,
        "the operator's bound is 1",
        Break::Policy(|p| {
            p.gas_per_settlement_max = 1;
        }),
    ),
];

fn put(body: &mut Value, pointer: &str, value: Value) {
    let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
    // Another broken step may have taken the parent away.
    if let Some(parent) = body.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.insert(field.into(), value);
    }
}

fn kind(version: Version) -> &'static str {
    match version {
        Version::V1 => "/paymentPayload",
        Version::V2 => "/paymentPayload/accepted",
    }
}

fn simulations(facts: &mut ChainFacts, change: fn(&mut Simulation)) {
    facts.direct.iter_mut().chain(&mut facts.deploying).for_each(change);
}

impl Step {
    pub fn code(&self, version: Version) -> Code {
        match (version, self.v1_code) {
            (Version::V1, Some(code)) => code,
            _ => self.code,
        }
    }

    pub fn applies(&self, base: Base) -> bool {
        self.base.is_none_or(|only| only == base)
    }

    pub fn excludes(&self, other: &Self) -> bool {
        EXCLUSIVE.contains(&(self.name, other.name)) || EXCLUSIVE.contains(&(other.name, self.name))
    }
}

/// The terms of a payment that every rule accepts, and a chain it executes on.
pub fn base(base: Base, version: Version) -> (Terms, Chain) {
    let mut terms = Terms::new(version);
    if base == Base::Undeployed {
        let owner = Key::named("owner");
        let wallet = Factory::Honest.wallet_of(owner.address());
        terms = terms.paid_by(wallet, owner);
        terms.signature = json!({ "erc6492": {} });
    }
    let mut chain = Chain::new();
    chain.balances.insert(terms.message.from, U256::from(1_000_000_000));
    (terms, chain)
}

/// The verdict on the base payment with `broken` steps broken.
pub fn verdict(payer: Base, version: Version, broken: &[&Step]) -> Result<VerifiedPayment, Refusal> {
    let (mut terms, chain) = base(payer, version);
    let mut policy = policy();
    for step in broken {
        match step.how {
            Break::Terms(change) => change(&mut terms),
            Break::Policy(change) => change(&mut policy),
            Break::PolicyAndTerms(change) => change(&mut policy, &mut terms),
            Break::Body(_) | Break::Facts(_) => {}
        }
    }
    let mut body = terms.body();
    for step in broken {
        if let Break::Body(change) = step.how {
            change(&mut body, version);
        }
    }
    let request = parse(&body, &served())?;
    let mut facts = chain.facts(&request, &policy);
    for step in broken {
        if let Break::Facts(change) = step.how {
            change(&mut facts);
        }
    }
    check(&request, &facts, &policy, UnixSeconds(NOW))
}
