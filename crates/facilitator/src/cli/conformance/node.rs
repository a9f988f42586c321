//! What is done to the chain: an Anvil node, or one that takes the same methods.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolCall;
use anyhow::{Context as _, bail, ensure};
use quittance_testkit::{
    RpcClient,
    jsonrpc::{big_quantity, hex_quantity, quantity},
};
use serde_json::{Value, json};
use std::time::Duration;

/// Sends everything that is not the facilitator's. Nobody has its key.
const SENDER: Address = alloy_primitives::address!("c0ffee00000000000000000000000000000060d1");
/// As much as the tables grant a settlement: a transfer that needs more is no settlement.
pub(super) const TRANSFER_GAS: u64 = 3_000_000;
const DEPLOY_GAS: u64 = 8_000_000;
const RECEIPT_POLL: Duration = Duration::from_millis(10);
const RECEIPT_POLLS_MAX: u32 = 200;
/// A transaction the node takes and leaves unmined is dropped and sent again this often.
const SENDS_MAX: u32 = 3;

/// A call to be mined.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub(super) to: Address,
    pub(super) data: Bytes,
}

/// The node.
#[derive(Debug)]
pub(super) struct Node {
    rpc: RpcClient,
    pub(super) chain_id: u64,
    pub(super) version: String,
}

impl Node {
    /// Connects, and finds out whether the node can be controlled.
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let rpc = RpcClient::new(url)?;
        let chain_id = rpc.chain_id().await.context("--rpc")?;
        let version = rpc.call("web3_clientVersion", json!([])).await?;
        let version = version.as_str().unwrap_or("unknown").to_owned();
        let node = Self { rpc, chain_id, version };
        let control = node.act("anvil_impersonateAccount", json!([SENDER])).await;
        control.context("--rpc must be a development node that takes Anvil's methods")?;
        node.fund(SENDER, U256::from(10).pow(U256::from(24))).await?;
        let automine = node.rpc.call("anvil_getAutomine", json!([])).await?;
        ensure!(automine == json!(true), "the node must mine every transaction at once (Anvil's default)");
        Ok(node)
    }

    async fn act(&self, method: &str, params: Value) -> anyhow::Result<()> {
        self.rpc.call(method, params).await.map(drop)
    }

    /// Gives an account at least this much.
    pub(super) async fn fund(&self, account: Address, wei: U256) -> anyhow::Result<()> {
        let has = self.rpc.call("eth_getBalance", json!([account, "latest"])).await?;
        if big_quantity(&has)? < wei {
            self.act("anvil_setBalance", json!([account, wei])).await?;
        }
        Ok(())
    }

    pub(super) async fn set_code(&self, account: Address, code: &Bytes) -> anyhow::Result<()> {
        self.act("anvil_setCode", json!([account, code])).await
    }

    pub(super) async fn set_storage(&self, account: Address, slot: B256, value: B256) -> anyhow::Result<()> {
        self.act("anvil_setStorageAt", json!([account, slot, value])).await
    }

    pub(super) async fn has_code(&self, account: Address) -> anyhow::Result<bool> {
        let code: Bytes =
            serde_json::from_value(self.rpc.call("eth_getCode", json!([account, "latest"])).await?)?;
        Ok(!code.is_empty())
    }

    /// Time of the newest block.
    pub(super) async fn time(&self) -> anyhow::Result<u64> {
        self.rpc.block_timestamp().await
    }

    /// Mines an empty block of this time, which is not before that of the newest.
    pub(super) async fn mine(&self, time: u64) -> anyhow::Result<()> {
        self.act("evm_setNextBlockTimestamp", json!([time])).await?;
        self.act("evm_mine", json!([])).await
    }

    /// Sets the clock of blocks to come.
    pub(super) async fn set_clock(&self, time: u64) -> anyhow::Result<()> {
        self.act("anvil_setTime", json!([time])).await
    }

    pub(super) async fn snapshot(&self) -> anyhow::Result<Value> {
        self.rpc.call("evm_snapshot", json!([])).await
    }

    /// Goes back to a snapshot, which is used up by it.
    pub(super) async fn revert(&self, snapshot: Value) -> anyhow::Result<()> {
        let done = self.rpc.call("evm_revert", json!([snapshot])).await?;
        ensure!(done == json!(true), "the node did not go back to its snapshot");
        Ok(())
    }

    /// Reads a view function.
    pub(super) async fn read<C: SolCall>(&self, to: Address, call: &C) -> anyhow::Result<C::Return> {
        let data: Bytes = call.abi_encode().into();
        let answer = self.rpc.call("eth_call", json!([{"to": to, "data": data}, "latest"])).await;
        let answer: Bytes = serde_json::from_value(answer.with_context(|| C::SIGNATURE)?)?;
        C::abi_decode_returns(&answer).with_context(|| format!("{} at {to} answered {answer}", C::SIGNATURE))
    }

    /// Sends a call that has to succeed, in a block of this time.
    pub(super) async fn must<C: SolCall>(&self, to: Address, call: &C, time: u64) -> anyhow::Result<()> {
        let transaction = Transaction { to, data: call.abi_encode().into() };
        ensure!(self.send(&transaction, DEPLOY_GAS, time).await?.1, "{} at {to} reverted", C::SIGNATURE);
        Ok(())
    }

    /// Deploys by sending init code to the deterministic deployer.
    pub(super) async fn deploy(&self, deployer: Address, data: Bytes, time: u64) -> anyhow::Result<()> {
        ensure!(
            self.send(&Transaction { to: deployer, data }, DEPLOY_GAS, time).await?.1,
            "a deployment reverted"
        );
        Ok(())
    }

    /// Whether a transfer executes in a block of this time. The state is as before afterwards.
    pub(super) async fn executes(&self, transaction: &Transaction, time: u64) -> anyhow::Result<bool> {
        let snapshot = self.snapshot().await?;
        let sent = self.send(transaction, TRANSFER_GAS, time).await;
        self.revert(snapshot).await?;
        let (hash, executed) = sent?;
        // The pool can still hold it, and would mine it again into the very next block.
        self.act("anvil_dropTransaction", json!([hash])).await?;
        Ok(executed)
    }

    /// Sends a transfer for good; true if it executed.
    pub(super) async fn transfer(&self, transaction: &Transaction, time: u64) -> anyhow::Result<bool> {
        Ok(self.send(transaction, TRANSFER_GAS, time).await?.1)
    }

    /// Waits until it is mined; true if it executed.
    async fn send(&self, transaction: &Transaction, gas: u64, time: u64) -> anyhow::Result<(B256, bool)> {
        self.act("evm_setNextBlockTimestamp", json!([time])).await?;
        // With a gas limit nothing is estimated: what reverts is mined all the same.
        let call = json!({
            "from": SENDER, "to": transaction.to, "data": transaction.data, "gas": hex_quantity(gas),
        });
        for _ in 0..SENDS_MAX {
            let hash: B256 =
                serde_json::from_value(self.rpc.call("eth_sendTransaction", json!([call])).await?)?;
            for _ in 0..RECEIPT_POLLS_MAX {
                if let Some(receipt) = self.receipt(hash).await? {
                    return Ok((hash, quantity(&receipt["status"])? == 1));
                }
                tokio::time::sleep(RECEIPT_POLL).await;
            }
            // A node that mines by itself can leave a transaction behind one that a revert brought back into its pool.
            self.act("anvil_dropAllTransactions", json!([])).await?;
        }
        bail!("the node does not mine what it is sent")
    }

    /// The receipt of a transaction, if it is mined.
    pub(super) async fn receipt(&self, hash: B256) -> anyhow::Result<Option<Value>> {
        let receipt = self.rpc.call("eth_getTransactionReceipt", json!([hash])).await?;
        Ok(Some(receipt).filter(|receipt| !receipt.is_null()))
    }
}
