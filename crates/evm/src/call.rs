//! Calls of contracts, and state of exactly one block.

use crate::{
    RpcFault,
    pool::{Reply, RpcPool},
    watch::{Head, head_at_endpoint},
};
use alloy::rpc::json_rpc::RpcRecv;
use alloy_primitives::{Address, Bytes, U64};
use serde_json::{Value, json};

pub(crate) const METHOD: &str = "eth_call";

/// What a contract says at a block or tag; `None`: it reverted. An error that is not its revert is the node's, and what
/// `understand` makes nothing of is no answer: then the next endpoint is asked.
pub(crate) async fn call<T>(
    pool: &RpcPool,
    to: Address,
    data: &Bytes,
    at: &Value,
    understand: impl Fn(Option<Bytes>) -> Result<T, RpcFault>,
) -> Result<T, RpcFault> {
    pool.read_reply(METHOD, transaction(to, data, at), |reply| understand(answer(reply)?)).await
}

/// The same, of exactly this block.
pub(crate) async fn call_pinned<T>(
    pool: &RpcPool,
    to: Address,
    data: &Bytes,
    block: &Head,
    understand: impl Fn(Option<Bytes>) -> Result<T, RpcFault>,
) -> Result<T, RpcFault> {
    pinned(pool, METHOD, block, |at| transaction(to, data, at), |reply| understand(answer(reply)?)).await
}

fn transaction(to: Address, data: &Bytes, at: &Value) -> Value {
    json!([{ "to": to, "data": data }, at])
}

/// State of exactly this block. By its hash (EIP-1898), so that a node that lacks the block, or holds another one in its place,
/// cannot answer from its own; where a node takes no hashes, by number, and the number must have the hash afterwards.
pub(crate) async fn pinned<T: RpcRecv, U>(
    pool: &RpcPool,
    method: &'static str,
    block: &Head,
    params: impl Fn(&Value) -> Value,
    understand: impl Fn(Reply<T>) -> Result<U, RpcFault>,
) -> Result<U, RpcFault> {
    let by_hash = params(&json!({ "blockHash": block.hash, "requireCanonical": true }));
    let by_number = params(&json!(U64::from(block.number)));
    let mut fault = pool.nobody(method);
    for index in pool.that_keep_up() {
        match pool.ask(index, method, &by_hash).await.and_then(&understand) {
            Ok(understood) => return Ok(understood),
            Err(RpcFault::ErrorResponse { .. }) => {}
            Err(error) => {
                fault = error;
                continue;
            }
        }
        match pool.ask(index, method, &by_number).await.and_then(&understand) {
            Ok(understood) => match head_at_endpoint(pool, index, block.number).await {
                Ok(Some(head)) if head.hash == block.hash => return Ok(understood),
                Ok(_) => fault = RpcFault::Malformed { method, what: "of another block" },
                Err(error) => fault = error,
            },
            Err(error) => fault = error,
        }
    }
    Err(fault)
}

/// `None`: the contract reverted, which is an answer. Every other error is the node's.
fn answer(reply: Reply<Bytes>) -> Result<Option<Bytes>, RpcFault> {
    match reply {
        Reply::Result(answer) => Ok(Some(answer)),
        Reply::Error { code, text } if is_revert(code, &text) => Ok(None),
        Reply::Error { code, .. } => Err(RpcFault::ErrorResponse { method: METHOD, code }),
    }
}

pub(crate) fn is_revert(code: i64, text: &str) -> bool {
    /// geth and its kin.
    const REVERTED: i64 = 3;
    /// OpenEthereum's, which others took over with its words.
    const VM_EXECUTION_ERROR: i64 = -32015;
    code == REVERTED || code == VM_EXECUTION_ERROR || text.to_ascii_lowercase().contains("revert")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_contracts_own_no_is_an_answer() {
        for (code, text, reverted) in [
            (3, "execution reverted", true),
            (-32000, "execution reverted: paused", true),
            (-32000, "Execution reverted", true),
            (-32015, "VM execution error.", true),
            (-32005, "daily request count exceeded, request rate limited", false),
            (-32603, "Internal error", false),
            (-32000, "header not found", false),
            (-32000, "out of gas", false),
        ] {
            let said = answer(Reply::Error { code, text: text.into() });
            let expected =
                if reverted { Ok(None) } else { Err(RpcFault::ErrorResponse { method: METHOD, code }) };
            assert_eq!(said, expected, "{text}");
        }
    }
}
