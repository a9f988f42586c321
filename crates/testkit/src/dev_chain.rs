//! A local chain with the contracts a payment needs.

use std::{sync::Arc, time::Duration};

use alloy::{
    primitives::{Address, B256, Bytes, U256, address, keccak256},
    sol_types::{SolCall, SolEvent, SolValue as _},
};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    abi::{IToken, IWalletFactory},
    anvil::Anvil,
    contracts::artifact,
    dev_accounts::{DEPLOYER, dev_address},
    jsonrpc::{RpcClient, hex_quantity, quantity},
    payment::{PaymentBuilder, SignedPayment},
};

/// Where Multicall3 is on every chain.
pub const MULTICALL3: Address = address!("cA11bde05977b3631167028862bE2a173976CA11");

const RECEIPT_DEADLINE: Duration = Duration::from_secs(30);
const RECEIPT_POLL: Duration = Duration::from_millis(20);

/// One decoded `Transfer` log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Payer.
    pub from: Address,
    /// Payee.
    pub to: Address,
    /// Atomic units.
    pub value: U256,
    /// Transaction that moved them.
    pub transaction: B256,
    /// Its block.
    pub block: u64,
    /// Position in the block.
    pub log_index: u64,
}

/// What became of a transaction sent by the kit.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// Transaction hash.
    pub transaction: B256,
    /// Its block.
    pub block: u64,
    /// False if it reverted.
    pub success: bool,
    /// The contract it created.
    pub contract: Option<Address>,
    /// Gas it used.
    pub gas_used: u64,
}

/// The contracts on one chain. Everything is sent by dev account [`DEPLOYER`]; a block is mined when the chain
/// does not mine by itself.
#[derive(Clone, Debug)]
pub struct DevChain {
    rpc: RpcClient,
    chain_id: u64,
    /// A `FiatToken`: "USDC", version "2", 6 decimals, in the shape of USDC 2.2.
    pub token: Address,
    /// A `WalletFactory` for undeployed contract wallets.
    pub wallet_factory: Address,
    /// Multicall3 at its usual address.
    pub multicall3: Address,
    // One sender, one nonce sequence.
    sending: Arc<Mutex<()>>,
}

impl DevChain {
    /// Puts token, factory and Multicall3 on the chain.
    pub async fn deploy(anvil: &Anvil) -> Result<Self> {
        let rpc = anvil.client().clone();
        let chain_id = rpc.chain_id().await?;
        let mut chain = Self {
            rpc,
            chain_id,
            token: Address::ZERO,
            wallet_factory: Address::ZERO,
            multicall3: MULTICALL3,
            sending: Arc::default(),
        };
        anvil.set_code(MULTICALL3, &artifact("Multicall3")?.deployed_bytecode).await?;
        chain.token = chain.deploy_token("FiatToken").await?;
        chain.wallet_factory = chain.deploy_contract("WalletFactory", &[]).await?;
        Ok(chain)
    }

    /// The same contracts seen through another node: a fork of this one.
    #[must_use]
    pub fn on(&self, other: &Anvil) -> Self {
        Self { rpc: other.client().clone(), sending: Arc::default(), ..self.clone() }
    }

    /// A client that goes straight to the node.
    pub fn client(&self) -> &RpcClient {
        &self.rpc
    }

    /// The chain id.
    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// A payment in this chain's token, dated by the newest block.
    pub async fn payment(&self) -> Result<PaymentBuilder> {
        let now = self.rpc.block_timestamp().await?;
        Ok(PaymentBuilder::new(self.chain_id, self.token).now(now))
    }

    /// Deploys the contract `name` with constructor arguments that are encoded already.
    pub async fn deploy_contract(&self, name: &str, encoded_arguments: &[u8]) -> Result<Address> {
        let mut code = artifact(name)?.bytecode.to_vec();
        code.extend_from_slice(encoded_arguments);
        let receipt = self.send(dev_address(DEPLOYER), None, code.into()).await;
        let receipt = receipt.with_context(|| format!("deploying {name}"))?;
        ensure!(receipt.success, "the constructor of {name} reverted");
        receipt.contract.ok_or_else(|| anyhow!("no contract address for {name}"))
    }

    /// Deploys one of the token contracts as "USDC", version "2", 6 decimals.
    pub async fn deploy_token(&self, name: &str) -> Result<Address> {
        self.deploy_token_as(name, "USDC", "2").await
    }

    /// Deploys one of the token contracts with a name and version of its own.
    pub async fn deploy_token_as(&self, contract: &str, name: &str, version: &str) -> Result<Address> {
        self.deploy_contract(contract, &(name, "USDC", version, U256::from(6)).abi_encode_params()).await
    }

    /// Deploys a contract wallet whose signatures are its owner's.
    pub async fn deploy_wallet1271(&self, owner: Address) -> Result<Address> {
        self.deploy_contract("Wallet1271", &owner.abi_encode()).await
    }

    /// The address at which the factory puts the wallet of `owner` and `salt`, deployed or not.
    pub async fn wallet_address(&self, owner: Address, salt: B256) -> Result<Address> {
        self.call(self.wallet_factory, &IWalletFactory::getAddressCall { owner, salt }).await
    }

    /// The call of the factory that deploys the wallet of `owner` and `salt`.
    pub fn wallet_calldata(owner: Address, salt: B256) -> Bytes {
        IWalletFactory::createWalletCall { owner, salt }.abi_encode().into()
    }

    /// Makes `account` delegate to `delegate`, as an EIP-7702 authorization would.
    pub async fn set_7702_code(&self, account: Address, delegate: Address) -> Result<()> {
        let code: Bytes = [&[0xef, 0x01, 0x00], delegate.as_slice()].concat().into();
        self.rpc.call("anvil_setCode", json!([account, code])).await.map(drop)
    }

    /// Creates `amount` atomic units of `token` for `to`.
    pub async fn mint(&self, token: Address, to: Address, amount: U256) -> Result<()> {
        let call = IToken::mintCall { to, amount }.abi_encode();
        let receipt = self.send(dev_address(DEPLOYER), Some(token), call.into()).await?;
        ensure!(receipt.success, "mint reverted");
        Ok(())
    }

    /// Balance in atomic units.
    pub async fn balance_of(&self, token: Address, account: Address) -> Result<U256> {
        self.call(token, &IToken::balanceOfCall { account }).await
    }

    /// Whether the authorization is used or canceled.
    pub async fn authorization_state(
        &self,
        token: Address,
        authorizer: Address,
        nonce: B256,
    ) -> Result<bool> {
        self.call(token, &IToken::authorizationStateCall { authorizer, nonce }).await
    }

    /// The runtime code at an address; empty if there is none.
    pub async fn code(&self, account: Address) -> Result<Bytes> {
        Ok(serde_json::from_value(self.rpc.call("eth_getCode", json!([account, "latest"])).await?)?)
    }

    /// All `Transfer` logs of `token` from `from_block` to the newest block, in order.
    pub async fn transfers(&self, token: Address, from_block: u64) -> Result<Vec<Transfer>> {
        let filter = json!([{
            "address": token,
            "fromBlock": hex_quantity(from_block),
            "toBlock": "latest",
            "topics": [IToken::Transfer::SIGNATURE_HASH],
        }]);
        let logs = self.rpc.call("eth_getLogs", filter).await?;
        logs.as_array().ok_or_else(|| anyhow!("eth_getLogs: not a list"))?.iter().map(transfer).collect()
    }

    /// Submits a payment as anyone may: a settlement that the facilitator did not send. A refusal of the token is a
    /// receipt without success.
    pub async fn settle_elsewhere(&self, payment: &SignedPayment) -> Result<Receipt> {
        self.send(dev_address(DEPLOYER), Some(payment.asset()), payment.transfer_call()).await
    }

    /// Takes a payment's authorization back on chain.
    pub async fn cancel_authorization(&self, payment: &SignedPayment) -> Result<Receipt> {
        self.send(dev_address(DEPLOYER), Some(payment.asset()), payment.cancel_call()).await
    }

    /// Reads a view function at the newest block.
    pub async fn call<C: SolCall>(&self, to: Address, call: &C) -> Result<C::Return> {
        let data: Bytes = call.abi_encode().into();
        let answer = self.rpc.call("eth_call", json!([{"to": to, "data": data}, "latest"])).await;
        let answer: Bytes = serde_json::from_value(answer.with_context(|| C::SIGNATURE)?)?;
        C::abi_decode_returns(&answer).with_context(|| format!("{} at {to} answered {answer}", C::SIGNATURE))
    }

    /// Sends a transaction from an account the node can sign for (a dev account or an impersonated one) and waits
    /// for its receipt. One that reverts is mined all the same.
    pub async fn send(&self, from: Address, to: Option<Address>, data: Bytes) -> Result<Receipt> {
        let _one_at_a_time = self.sending.lock().await;
        let mut transaction = json!({"from": from, "data": data});
        if let Some(to) = to {
            transaction["to"] = json!(to);
        }
        if self.knows_no_base_fee().await? {
            transaction["gasPrice"] = self.rpc.call("eth_gasPrice", json!([])).await?;
        }
        let hash: B256 =
            serde_json::from_value(self.rpc.call("eth_sendTransaction", json!([transaction])).await?)?;
        if let Some(receipt) = self.receipt(hash).await? {
            return Ok(receipt);
        }
        if !self.mines_by_itself().await? {
            self.rpc.call("evm_mine", json!([])).await?;
        }
        let deadline = Instant::now() + RECEIPT_DEADLINE;
        loop {
            if let Some(receipt) = self.receipt(hash).await? {
                return Ok(receipt);
            }
            if Instant::now() >= deadline {
                bail!("no receipt of {hash} within {RECEIPT_DEADLINE:?}");
            }
            tokio::time::sleep(RECEIPT_POLL).await;
        }
    }

    /// The receipt of a transaction, if it is mined.
    pub async fn receipt(&self, transaction: B256) -> Result<Option<Receipt>> {
        let receipt = self.rpc.call("eth_getTransactionReceipt", json!([transaction])).await?;
        if receipt.is_null() {
            return Ok(None);
        }
        Ok(Some(Receipt {
            transaction,
            block: quantity(&receipt["blockNumber"])?,
            success: quantity(&receipt["status"])? == 1,
            contract: serde_json::from_value(receipt["contractAddress"].clone())?,
            gas_used: quantity(&receipt["gasUsed"])?,
        }))
    }

    /// Before EIP-1559: the node then refuses the fees it fills in by itself.
    async fn knows_no_base_fee(&self) -> Result<bool> {
        let head = self.rpc.call("eth_getBlockByNumber", json!(["latest", false])).await?;
        Ok(head["baseFeePerGas"].is_null())
    }

    async fn mines_by_itself(&self) -> Result<bool> {
        if self.rpc.call("anvil_getAutomine", json!([])).await? == json!(true) {
            return Ok(true);
        }
        let interval = self.rpc.call("anvil_getIntervalMining", json!([])).await?;
        Ok(interval.as_u64().is_some_and(|seconds| seconds > 0))
    }
}

/// A salt made of a word, for wallets of the factory.
pub fn salt(word: &str) -> B256 {
    keccak256(word)
}

fn transfer(log: &Value) -> Result<Transfer> {
    let topics: Vec<B256> = serde_json::from_value(log["topics"].clone())?;
    let data: Bytes = serde_json::from_value(log["data"].clone())?;
    let event = IToken::Transfer::decode_raw_log(topics, &data).context("a Transfer log")?;
    Ok(Transfer {
        from: event.from,
        to: event.to,
        value: event.value,
        transaction: serde_json::from_value(log["transactionHash"].clone())?,
        block: quantity(&log["blockNumber"])?,
        log_index: quantity(&log["logIndex"])?,
    })
}
