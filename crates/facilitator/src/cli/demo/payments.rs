//! The payments of the demo, the refusals, and the books at the end.

use super::{
    report::{Account, Report, Step},
    stage::Stage,
    witness::Observed,
};
use crate::names::named_on;
use alloy_primitives::{Address, B256, U256};
use anyhow::ensure;
use quittance_protocol::code::Code;
use quittance_testkit::{
    DevChain, PaymentBuilder, SignedPayment, dev_address, dev_chain::salt, dev_signer, unix_now,
};
use serde_json::json;
use std::{io::Write, path::PathBuf, time::Duration};

/// A cent, in atomic units.
const PRICE: u64 = 10_000;
/// What every payer has at the start: a dollar.
const FUNDS: u64 = 1_000_000;
/// How long the reader's payment is good for.
const DAY_SECONDS: u64 = 86_400;

// Who is who among the chain's dev accounts. 0 is the facilitator's signer, 9 put the contracts there.
const PAYER_V2: usize = 1;
const PAYER_V1: usize = 2;
const WALLET_OWNER: usize = 3;
const PAYER_ELSEWHERE: usize = 4;
const PAYER_REFUSED: usize = 5;
const STRANGER: usize = 6;
const PAYEE: usize = 7;
const READER: usize = 8;

/// Everyone whose money is at stake.
struct Cast {
    wallet: Address,
    undeployed: Address,
    /// Not on the allow-list.
    unlisted_factory: Address,
    /// Its wallet, not deployed either.
    unlisted: Address,
}

/// All payments and refusals, then the books.
pub(super) async fn play<W: Write>(stage: &Stage, report: &mut Report<W>) -> anyhow::Result<()> {
    let cast = Cast::gather(stage).await?;
    let mut books = Books::open(stage, &cast).await?;
    report.section("Payments by /verify, then /settle")?;
    let first = accepted(stage, &cast, report, &mut books).await?;
    report.section("A settled payment, sent again")?;
    let again = Observed::watch(stage, first.payment().clone()).await?;
    let (verify, settle) = (Code::NonceAlreadyUsed, Code::DuplicateSettlement);
    report.step(&again.refused_with("the payment of 1", verify, settle, first.hash()))?;
    report.section("Refusals, one for each way to break a rule")?;
    refused(stage, &cast, report).await?;
    let (accounts, step) = books.close(stage).await?;
    report.books(&accounts)?;
    report.step(&step)?;
    Ok(())
}

/// One payment of each kind of payer; gives back the first.
async fn accepted<W: Write>(
    stage: &Stage,
    cast: &Cast,
    report: &mut Report<W>,
    books: &mut Books,
) -> anyhow::Result<Observed> {
    let first = Observed::watch(stage, eoa(stage, PAYER_V2).await?.sign()).await?;
    books.settled(&first);
    report.step(&first.paid("an EOA, x402 version 2"))?;

    let paid = Observed::watch(stage, eoa(stage, PAYER_V1).await?.v1().sign()).await?;
    books.settled(&paid);
    report.step(&paid.paid("an EOA, x402 version 1"))?;

    let payment = builder(stage).await?.wallet(cast.wallet, dev_signer(WALLET_OWNER)).sign();
    let paid = Observed::watch(stage, payment).await?;
    books.settled(&paid);
    report.step(&paid.paid("a contract wallet, ERC-1271"))?;

    let payment = by_undeployed(stage, cast.undeployed, stage.chain.wallet_factory).await?;
    let had_code = has_code(stage, cast.undeployed).await?;
    let paid = Observed::watch(stage, payment).await?;
    books.settled(&paid);
    let mut step = paid.paid("a contract wallet its payment deploys, ERC-6492");
    step.expect("code at the wallet before", false, had_code);
    step.expect("code at the wallet after", true, has_code(stage, cast.undeployed).await?);
    report.step(&step)?;
    Ok(first)
}

async fn refused<W: Write>(stage: &Stage, cast: &Cast, report: &mut Report<W>) -> anyhow::Result<()> {
    let payment = eoa(stage, PAYER_REFUSED).await?;

    let twin = Observed::watch(stage, payment.sign().high_s_twin()?).await?;
    report.step(&twin.refused("rule 1  the high-s twin of a good signature", Code::NonCanonicalSignature))?;

    let forged = payment.clone().wallet(dev_address(PAYER_REFUSED), dev_signer(STRANGER)).sign();
    let forged = Observed::watch(stage, forged).await?;
    report.step(&forged.refused("rule 2  signed by somebody else", Code::Signature))?;

    // The next block's time is fixed, so that the payment can meet it to the second. By the wall clock it is open.
    let now = stage.chain.client().block_timestamp().await? + 1;
    stage.anvil.set_next_block_timestamp(now).await?;
    while unix_now() <= now {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let early = Observed::watch(stage, payment.clone().valid_after(now).sign()).await?;
    report.step(&early.refused("rule 3  now = validAfter, not open yet", Code::ValidAfter))?;
    stage.anvil.mine(1).await?;
    let late = Observed::watch(stage, payment.clone().valid_before(now).sign()).await?;
    report.step(&late.refused("rule 3  now = validBefore, closed", Code::ValidBefore))?;

    let more = Observed::watch(stage, payment.clone().value(PRICE + 1).sign()).await?;
    report.step(&more.refused("rule 4  one unit more than the price", Code::ValueMismatch))?;

    // The facilitator has never seen this one: only the chain can tell.
    let taken = eoa(stage, PAYER_ELSEWHERE).await?.sign();
    let receipt = stage.chain.settle_elsewhere(&taken).await?;
    ensure!(receipt.success, "the token refused a good payment");
    let taken = Observed::watch(stage, taken).await?;
    report.step(&taken.refused("rule 5  nonce used: somebody else has sent it", Code::NonceAlreadyUsed))?;

    report.step(&held(stage, &payment).await?)?;

    let unlisted = by_undeployed(stage, cast.unlisted, cast.unlisted_factory).await?;
    let unlisted = Observed::watch(stage, unlisted).await?;
    let mut step =
        unlisted.refused("        ERC-6492 factory not on the allow-list", Code::FactoryNotAllowed);
    step.expect("code at the wallet", false, has_code(stage, cast.unlisted).await?);
    report.step(&step)?;
    Ok(())
}

/// A payment that `/verify` has accepted holds its nonce against any other, and against itself.
async fn held(stage: &Stage, payment: &PaymentBuilder) -> anyhow::Result<Step> {
    let holder = payment.sign();
    let (_, first) = stage.client.verify(holder.body()).await?;
    let (_, second) = stage.client.verify(holder.body()).await?;
    let other = payment.clone().nonce(holder.nonce()).amount(2 * PRICE).sign();
    let other = Observed::watch(stage, other).await?;
    let code = Code::NonceAlreadyUsed;
    let mut step = other.refused("rule 5  nonce held: /verify accepted another", code);
    step.expect("the holder's /verify isValid", true, &first["isValid"]);
    step.expect("the holder's second /verify isValid", false, &second["isValid"]);
    step.expect("its invalidReason", json!(code.as_str()), &second["invalidReason"]);
    Ok(step)
}

/// A cent for the payee, dated by the chain.
async fn builder(stage: &Stage) -> anyhow::Result<PaymentBuilder> {
    Ok(stage.chain.payment().await?.pay_to(dev_address(PAYEE)).amount(PRICE))
}

async fn eoa(stage: &Stage, account: usize) -> anyhow::Result<PaymentBuilder> {
    Ok(builder(stage).await?.payer(dev_signer(account)))
}

impl Cast {
    /// Deploys the wallets and gives every payer a dollar.
    async fn gather(stage: &Stage) -> anyhow::Result<Self> {
        let chain = &stage.chain;
        let owner = dev_address(WALLET_OWNER);
        let wallet = chain.deploy_wallet1271(owner).await?;
        let undeployed = chain.wallet_address(owner, wallet_salt()).await?;
        let mut elsewhere = chain.clone();
        elsewhere.wallet_factory = chain.deploy_contract("WalletFactory", &[]).await?;
        let unlisted = elsewhere.wallet_address(owner, wallet_salt()).await?;
        let cast = Self { wallet, undeployed, unlisted_factory: elsewhere.wallet_factory, unlisted };
        for (_, payer) in cast.payers() {
            chain.mint(chain.token, payer, U256::from(FUNDS)).await?;
        }
        chain.mint(chain.token, dev_address(READER), U256::from(FUNDS)).await?;
        Ok(cast)
    }

    fn payers(&self) -> [(&'static str, Address); 7] {
        [
            ("payer of 1, EOA", dev_address(PAYER_V2)),
            ("payer of 2, EOA", dev_address(PAYER_V1)),
            ("payer of 3, contract wallet", self.wallet),
            ("payer of 4, contract wallet", self.undeployed),
            ("payer of 6 to 10 and 12, EOA", dev_address(PAYER_REFUSED)),
            ("payer of 11, sent by somebody else", dev_address(PAYER_ELSEWHERE)),
            ("payer of 13, not deployed", self.unlisted),
        ]
    }
}

fn wallet_salt() -> B256 {
    salt("quittance demo")
}

/// A payment by a wallet that `factory` is still to deploy.
async fn by_undeployed(stage: &Stage, wallet: Address, factory: Address) -> anyhow::Result<SignedPayment> {
    let calldata = DevChain::wallet_calldata(dev_address(WALLET_OWNER), wallet_salt());
    let payment = builder(stage).await?.wallet(wallet, dev_signer(WALLET_OWNER)).sign();
    Ok(payment.erc6492(factory, &calldata))
}

async fn has_code(stage: &Stage, address: Address) -> anyhow::Result<bool> {
    Ok(!stage.chain.code(address).await?.is_empty())
}

/// What everyone had before the first payment, and what `/settle` says it sent.
struct Books {
    last_block: u64,
    accounts: Vec<(&'static str, Address, U256)>,
    signer_transactions: u64,
    settled: Vec<B256>,
}

impl Books {
    async fn open(stage: &Stage, cast: &Cast) -> anyhow::Result<Self> {
        let mut accounts = Vec::new();
        for (who, address) in cast.payers().into_iter().chain([("payee", dev_address(PAYEE))]) {
            accounts.push((who, address, stage.chain.balance_of(stage.chain.token, address).await?));
        }
        Ok(Self {
            last_block: stage.chain.client().block_number().await?,
            accounts,
            signer_transactions: stage.anvil.nonce(stage.signer(), true).await?,
            settled: Vec::new(),
        })
    }

    fn settled(&mut self, payment: &Observed) {
        self.settled.extend(payment.hash());
    }

    /// Everyone's line, and a last step about the whole: every transfer is accounted for, and the signer sent nothing else.
    async fn close(self, stage: &Stage) -> anyhow::Result<(Vec<Account>, Step)> {
        let chain = &stage.chain;
        let mut transfers = chain.transfers(chain.token, self.last_block).await?;
        transfers.retain(|transfer| transfer.block > self.last_block);
        let mut accounts = Vec::new();
        for (who, address, before) in self.accounts {
            accounts.push(Account {
                who: who.to_owned(),
                name: named_on(U256::from(chain.chain_id()), address),
                before,
                after: chain.balance_of(chain.token, address).await?,
                transfers: transfers.iter().filter(|t| t.from == address || t.to == address).count(),
            });
        }
        let mut gas = 0;
        for hash in &self.settled {
            gas += chain.receipt(*hash).await?.map_or(0, |receipt| receipt.gas_used);
        }
        let sent = stage.anvil.nonce(stage.signer(), true).await? - self.signer_transactions;
        let ours = transfers.iter().filter(|t| self.settled.contains(&t.transaction)).count();

        let mut step = Step::new(&format!("the facilitator sent {sent} transactions, {gas} gas"));
        step.expect("transactions of the facilitator's signer", 4, sent);
        step.expect("Transfer logs of its transactions", 4, ours);
        step.expect("Transfer logs in all: its own, and the one of 11", 5, transfers.len());
        let total = |pick: fn(&Account) -> U256| accounts.iter().map(pick).sum::<U256>();
        step.expect("all balances together", total(|a| a.before), total(|a| a.after));
        let received = accounts.last().map_or(U256::ZERO, |payee| payee.after - payee.before);
        step.expect("what the payee received", 5 * PRICE, received);
        Ok((accounts, step))
    }
}

/// A payment nobody has sent yet, in a file.
pub(super) async fn for_the_reader(stage: &Stage) -> anyhow::Result<PathBuf> {
    let payment = eoa(stage, READER).await?.now(unix_now()).max_timeout_seconds(DAY_SECONDS).sign();
    let path = stage.directory().join("payment.json");
    std::fs::write(&path, format!("{:#}\n", payment.body()))?;
    Ok(path)
}
