//! `exact` by EIP-3009 `transferWithAuthorization` (spec/x402.md §5).

use crate::{
    payment::{Authorization, Payment, Requirement},
    signature::{Ecdsa, Erc6492, Shape},
};
use alloy_primitives::{Address, B256, Bytes, U256, address, b256};
use alloy_sol_types::{Eip712Domain, SolCall, SolStruct, eip712_domain, sol};

sol! {
    struct TransferWithAuthorization {
        address from; address to; uint256 value; uint256 validAfter; uint256 validBefore; bytes32 nonce;
    }

    interface Eip3009 {
        function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s);
    }

    interface Eip3009Bytes {
        function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature);
    }

    interface IMulticall3 {
        struct Call3 { address target; bool allowFailure; bytes callData; }
        struct Result { bool success; bytes returnData; }
        function aggregate3(Call3[] calls) returns (Result[] returnData);
    }
}

/// Multicall3, at the same address on every chain.
pub const MULTICALL3: Address = address!("cA11bde05977b3631167028862bE2a173976CA11");
/// Uniswap's Permit2, at the same address on every chain.
pub const PERMIT2: Address = address!("000000000022D473030F116dDEE9F6B43aC78BA3");
/// x402's Permit2 proxy for `exact`.
pub const EXACT_PERMIT2_PROXY: Address = address!("402085c248EeA27D92E8b30b2C58ed07f9E20001");
/// x402's Permit2 proxy for `upto`.
pub const UPTO_PERMIT2_PROXY: Address = address!("4020A4f3b7b90ccA423B9fabCc0CE57C6C240002");

/// `Transfer(address,address,uint256)`.
pub const TRANSFER_TOPIC: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
/// `AuthorizationUsed(address,bytes32)`.
pub const AUTHORIZATION_USED_TOPIC: B256 =
    b256!("98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5");
/// `AuthorizationCanceled(address,bytes32)`.
pub const AUTHORIZATION_CANCELED_TOPIC: B256 =
    b256!("1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81");

/// A transaction's target and data.
#[derive(Clone, PartialEq, Eq)]
pub struct Call {
    /// Target.
    pub to: Address,
    /// Calldata; holds the payer's signature.
    pub data: Bytes,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("to", &self.to).finish_non_exhaustive()
    }
}

/// The token's domain as the seller declares it; `None` when `extra.name` or `extra.version` is missing.
pub fn declared_domain(requirement: &Requirement) -> Option<Eip712Domain> {
    let name = requirement.domain_name.as_ref().filter(|s| !s.is_empty())?;
    let version = requirement.domain_version.as_ref().filter(|s| !s.is_empty())?;
    Some(domain(requirement.network.chain_id(), requirement.asset, name, version))
}

/// The EIP-712 domain of an EIP-3009 token.
pub fn domain(chain_id: u64, token: Address, name: &str, version: &str) -> Eip712Domain {
    eip712_domain! {
        name: name.to_owned(),
        version: version.to_owned(),
        chain_id: chain_id,
        verifying_contract: token,
    }
}

/// The digest the payer signed.
pub fn digest(authorization: &Authorization, domain: &Eip712Domain) -> B256 {
    TransferWithAuthorization {
        from: authorization.from,
        to: authorization.to,
        value: authorization.value.0,
        validAfter: authorization.valid_after,
        validBefore: authorization.valid_before,
        nonce: authorization.nonce.0,
    }
    .eip712_signing_hash(domain)
}

/// The calls that execute the payment directly on the token, in order of preference: 65 bytes go through `(v, r, s)`
/// and, where a token has only that, through `bytes`; everything else through `bytes` (spec/x402.md §4).
///
/// Tokens want `v` as 27 or 28, so that form is tried first; a contract may insist on its own 0 or 1, so the bytes as
/// they came are tried too.
pub fn direct_calls(payment: &Payment, asset: Address) -> Vec<Call> {
    let as_sent = payment.signature.for_contract();
    let mut calls = Vec::with_capacity(2);
    if let Some(parts) = Ecdsa::from_bytes(as_sent) {
        let legacy = Ecdsa { v: parts.legacy_v().unwrap_or(parts.v), ..parts };
        calls.extend(ecdsa_calls(&payment.authorization, asset, legacy));
        if legacy != parts {
            calls.extend(ecdsa_calls(&payment.authorization, asset, parts));
        }
    } else {
        calls.push(bytes_call(&payment.authorization, asset, as_sent.clone()));
    }
    calls
}

/// Deployment and transfer in one atomic Multicall3 transaction. The factory then runs without any privilege of our
/// signer, and from the same sender as in the simulation (spec/x402.md §7, 12).
pub fn deploying_calls(payment: &Payment, asset: Address, wrapper: &Erc6492) -> Vec<Call> {
    direct_calls(payment, asset).into_iter().map(|transfer| deploy(wrapper, Some(transfer))).collect()
}

/// What is simulated about them: the calls themselves, and the deployment alone. The last only runs when the transfers
/// failed; it tells a failed deployment and a signature that the wallet does not know from a failed transfer. It is never sent.
pub fn deploying_questions(payment: &Payment, asset: Address, wrapper: &Erc6492) -> Vec<Call> {
    let mut calls = deploying_calls(payment, asset, wrapper);
    calls.push(deploy(wrapper, None));
    calls
}

fn deploy(wrapper: &Erc6492, transfer: Option<Call>) -> Call {
    let factory = IMulticall3::Call3 {
        target: wrapper.factory,
        allowFailure: false,
        callData: wrapper.factory_calldata.clone(),
    };
    let transfer = transfer.map(|transfer| IMulticall3::Call3 {
        target: transfer.to,
        allowFailure: false,
        callData: transfer.data,
    });
    let calls = std::iter::once(factory).chain(transfer).collect();
    Call { to: MULTICALL3, data: IMulticall3::aggregate3Call { calls }.abi_encode().into() }
}

/// The transfer in a call of [`deploying_calls`], by itself: what executes the payment once its payer is deployed. `None`: it
/// deploys nothing.
pub fn without_deployment(to: Address, data: &[u8]) -> Option<Call> {
    if to != MULTICALL3 {
        return None;
    }
    let calls = IMulticall3::aggregate3Call::abi_decode_validate(data).ok()?.calls;
    let [_, transfer] = calls.try_into().ok()?;
    Some(Call { to: transfer.target, data: transfer.callData })
}

/// The wrapper of a payment that may be settled by deploying its payer: complete, with a factory on the allow-list.
pub fn deployable<'a>(payment: &'a Payment, factories: &[Address]) -> Option<&'a Erc6492> {
    match payment.signature.shape() {
        Shape::Erc6492(wrapper) if wrapper.is_complete() && factories.contains(&wrapper.factory) => {
            Some(wrapper)
        }
        _ => None,
    }
}

fn ecdsa_calls(a: &Authorization, asset: Address, parts: Ecdsa) -> [Call; 2] {
    let data = Eip3009::transferWithAuthorizationCall {
        from: a.from,
        to: a.to,
        value: a.value.0,
        validAfter: a.valid_after,
        validBefore: a.valid_before,
        nonce: a.nonce.0,
        v: parts.v,
        r: parts.r,
        s: parts.s,
    }
    .abi_encode()
    .into();
    [Call { to: asset, data }, bytes_call(a, asset, parts.to_bytes())]
}

fn bytes_call(a: &Authorization, asset: Address, signature: Bytes) -> Call {
    let data = Eip3009Bytes::transferWithAuthorizationCall {
        from: a.from,
        to: a.to,
        value: a.value.0,
        validAfter: a.valid_after,
        validBefore: a.valid_before,
        nonce: a.nonce.0,
        signature,
    }
    .abi_encode()
    .into();
    Call { to: asset, data }
}

/// Gas of a transaction outside its execution: the base cost and the calldata, or the calldata floor of EIP-7623.
pub fn intrinsic_gas(data: &[u8]) -> (u64, u64) {
    const BASE: u64 = 21_000;
    let zeros = data.iter().filter(|b| **b == 0).count();
    let zeros = u64::try_from(zeros).unwrap_or(u64::MAX);
    let nonzeros = u64::try_from(data.len()).unwrap_or(u64::MAX).saturating_sub(zeros);
    let tokens = zeros.saturating_add(nonzeros.saturating_mul(4));
    (BASE.saturating_add(tokens.saturating_mul(4)), BASE.saturating_add(tokens.saturating_mul(10)))
}

/// Gas limit for a call that used `execution` gas when simulated: a third more, because a token's cost can rise between
/// simulation and inclusion (a recipient's first balance, a counter crossing a storage slot), and because only 63/64
/// of the gas reaches each deeper call.
pub fn gas_limit(data: &[u8], execution: u64) -> u64 {
    let (intrinsic, floor) = intrinsic_gas(data);
    let execution = execution.saturating_add(execution / 3).saturating_add(10_000);
    intrinsic.saturating_add(execution).max(floor.saturating_add(floor / 10))
}

/// Whether a log of the token is the transfer the payment promised.
pub fn is_promised_transfer(topics: &[B256], data: &[u8], authorization: &Authorization) -> bool {
    let [topic, from, to] = topics else { return false };
    *topic == TRANSFER_TOPIC
        && *from == authorization.from.into_word()
        && *to == authorization.to.into_word()
        && data.len() == 32
        && U256::from_be_slice(data) == authorization.value.0
}
