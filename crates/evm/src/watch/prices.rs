//! What a transaction costs beside the base fee.

use crate::{
    RpcFault,
    call::call,
    pool::{Reply, RpcPool},
};
use alloy_primitives::{Address, U128, U256, address};
use alloy_sol_types::{SolCall, sol};
use serde_json::json;

/// What nodes suggest as a tip, in wei per gas; zero where the method does not exist.
pub async fn suggested_tip(pool: &RpcPool) -> Result<u128, RpcFault> {
    const METHOD: &str = "eth_maxPriorityFeePerGas";
    pool.read_reply(METHOD, json!([]), |reply: Reply<U128>| match reply {
        Reply::Result(tip) => Ok(tip.to()),
        Reply::Error { code, text } if is_unknown_method(code, &text) => Ok(0),
        Reply::Error { code, .. } => Err(RpcFault::ErrorResponse { method: METHOD, code }),
    })
    .await
}

/// What nodes of a chain without EIP-1559 suggest as gas price, in wei.
pub async fn gas_price(pool: &RpcPool) -> Result<u128, RpcFault> {
    Ok(pool.read::<U128>("eth_gasPrice", json!([])).await?.to())
}

/// The node has no such method, in the words of JSON-RPC, of EIP-1474, or of those who keep to neither.
fn is_unknown_method(code: i64, text: &str) -> bool {
    const METHOD_NOT_FOUND: i64 = -32601;
    const METHOD_NOT_SUPPORTED: i64 = -32004;
    const TEXTS: [&str; 5] = [
        "method not found",
        "does not exist/is not available",
        "unsupported method",
        "not supported",
        "not implemented",
    ];
    let text = text.to_ascii_lowercase();
    matches!(code, METHOD_NOT_FOUND | METHOD_NOT_SUPPORTED) || TEXTS.iter().any(|known| text.contains(known))
}

sol! {
    interface GasPriceOracle {
        /// Since Fjord.
        function getL1FeeUpperBound(uint256 unsignedTxSize) returns (uint256);
        /// Always.
        function getL1Fee(bytes data) returns (uint256);
    }
}

/// Where chains of the OP stack keep their oracle.
const GAS_PRICE_ORACLE: Address = address!("420000000000000000000000000000000000000F");

/// What 1024 bytes of a transaction cost on L1 at most, in wei: chains of the OP stack take this fee beside gas, and it is in no
/// gas estimate. Zero on a chain without the oracle. One that tells no fee takes one all the same: that is a fault.
pub async fn l1_fee_per_kilobyte(pool: &RpcPool) -> Result<U256, RpcFault> {
    const BYTES: usize = 1024;
    let upper_bound = GasPriceOracle::getL1FeeUpperBoundCall { unsignedTxSize: U256::from(BYTES) };
    if let Some(fee) = ask_oracle(pool, &upper_bound).await? {
        return Ok(fee);
    }
    // None of them zero, which would be cheaper.
    let exact = GasPriceOracle::getL1FeeCall { data: vec![0xff; BYTES].into() };
    let unknown =
        RpcFault::Malformed { method: "eth_call", what: "the oracle of the L1 fee does not tell it" };
    ask_oracle(pool, &exact).await?.ok_or(unknown)
}

/// `None`: the oracle does not know the question.
async fn ask_oracle(pool: &RpcPool, question: &impl SolCall) -> Result<Option<U256>, RpcFault> {
    let data = question.abi_encode().into();
    call(pool, GAS_PRICE_ORACLE, &data, &json!("latest"), |answer| match answer {
        Some(word) if word.len() == 32 => Ok(Some(U256::from_be_slice(&word))),
        // No code there.
        Some(nothing) if nothing.is_empty() => Ok(Some(U256::ZERO)),
        Some(_) => Err(RpcFault::Malformed { method: "eth_call", what: "the L1 fee is not a number" }),
        None => Ok(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_method_is_no_tip() {
        for (code, text) in [
            (-32601, "the method eth_maxPriorityFeePerGas does not exist/is not available"),
            (-32601, "Method not found"),
            (-32004, "Method not supported"),
            (-32600, "Unsupported method: eth_maxPriorityFeePerGas on a chain of ours"),
            (-32000, "Method eth_maxPriorityFeePerGas not supported."),
        ] {
            assert!(is_unknown_method(code, text), "{text}");
        }
        for (code, text) in [
            (-32005, "daily request count exceeded, request rate limited"),
            (-32603, "internal error"),
            (-32000, "header not found"),
            (429, "too many requests"),
        ] {
            assert!(!is_unknown_method(code, text), "{text}");
        }
    }
}
