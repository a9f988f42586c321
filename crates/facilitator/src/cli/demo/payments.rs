//! The payments of the demo, the refusals, and the books at the end.

use super::{
    report::{Account, Report, Step},
    stage::Stage,
    witness::Observed,
};
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
    /// The wallet of a factory that is not on the allow-list.
    unlisted: Address,
    /// The chain, seen with that factory.
    unlisted_chain: DevChain,
}

pub(super) async fn play<W: Write>(stage: &Stage, report: &mut Report<W>) -> anyhow::Result<()> {
    let cast = Cast::gather(stage).await?;
    let mut books = Books::open(stage, &cast).await?;

    report.section("Payments by /verify, then /settle")?;
    let first = eoa(stage, PAYER_V2).await?.sign();
    let paid = Observed::watch(stage, first.clone()).await?;
    let first_hash = paid.hash();
    books.settled(first_hash);
    report.step(&paid.paid("an EOA, x402 version 2"))?;

    let paid = Observed::watch(stage, eoa(stage, PAYER_V1).await?.v1().sign()).await?;
    books.settled(paid.hash());
    report.step(&paid.paid("an EOA, x402 version 1"))?;

    let payment = builder(stage).await?.wallet(cast.wallet, dev_signer(WALLET_OWNER)).sign();
    let paid = Observed::watch(stage, payment).await?;
    books.settled(paid.hash());
    report.step(&paid.paid("a contract wallet, ERC-1271"))?;

    let payment = cast.by_undeployed(stage, &stage.chain, cast.undeployed).await?;
    let had_code = !stage.chain.code(cast.undeployed).await?.is_empty();
    let paid = Observed::watch(stage, payment).await?;
    books.settled(paid.hash());
    let mut step = paid.paid("a contract wallet not deployed yet, ERC-6492");
    step.expect("code at the wallet before", false, had_code);
    step.expect("code at the wallet after", true, !stage.chain.code(cast.undeployed).await?.is_empty());
    report.step(&step)?;

    report.section("A settled payment, sent again")?;
    let (used, duplicate) = (Code::NonceAlreadyUsed.as_str(), Code::DuplicateSettlement.as_str());
    let again = Observed::watch(stage, first).await?;
    report.step(&again.refused_with("the payment of 1", used, duplicate, first_hash))?;

    report.section("Refusals, one for each way to break a rule")?;
    for step in refusals(stage, &cast).await? {
        report.step(&step)?;
    }

    let (accounts, step) = books.close(stage).await?;
    report.books(&accounts)?;
    report.step(&step)?;
    Ok(())
}

async fn refusals(stage: &Stage, cast: &Cast) -> anyhow::Result<Vec<Step>> {
    let payment = eoa(stage, PAYER_REFUSED).await?;
    let now = stage.chain.client().block_timestamp().await?;
    let mut steps = Vec::new();

    let twin = Observed::watch(stage, payment.sign().high_s_twin()?).await?;
    steps.push(
        twin.refused("rule 1  the high-s twin of a good signature", Code::NonCanonicalSignature.as_str()),
    );

    let forged = payment.clone().wallet(dev_address(PAYER_REFUSED), dev_signer(STRANGER)).sign();
    let forged = Observed::watch(stage, forged).await?;
    steps.push(forged.refused("rule 2  signed by somebody else", Code::Signature.as_str()));

    // The next block's time is fixed, so that the payment can meet it to the second. By the wall clock it is open.
    let next = now + 1;
    stage.anvil.set_next_block_timestamp(next).await?;
    while unix_now() <= next {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let early = Observed::watch(stage, payment.clone().valid_after(next).sign()).await?;
    stage.anvil.mine(1).await?;
    steps.push(early.refused("rule 3  now = validAfter, not open yet", Code::ValidAfter.as_str()));

    let late = Observed::watch(stage, payment.clone().valid_before(next).sign()).await?;
    steps.push(late.refused("rule 3  now = validBefore, closed", Code::ValidBefore.as_str()));

    let more = Observed::watch(stage, payment.clone().value(PRICE + 1).sign()).await?;
    steps.push(more.refused("rule 4  one unit more than the price", Code::ValueMismatch.as_str()));

    // The facilitator has never seen this one: only the chain can tell.
    let taken = eoa(stage, PAYER_ELSEWHERE).await?.sign();
    let receipt = stage.chain.settle_elsewhere(&taken).await?;
    ensure!(receipt.success, "the token refused a good payment");
    let taken = Observed::watch(stage, taken).await?;
    steps.push(
        taken.refused("rule 5  sent to the chain by somebody else before", Code::NonceAlreadyUsed.as_str()),
    );

    steps.push(pending(stage, &payment).await?);

    let unlisted = cast.by_undeployed(stage, &cast.unlisted_chain, cast.unlisted).await?;
    let unlisted = Observed::watch(stage, unlisted).await?;
    steps.push(
        unlisted.refused("        wallet factory not on the allow-list", Code::FactoryNotAllowed.as_str()),
    );
    Ok(steps)
}

/// A payment that `/verify` has accepted holds its nonce against any other, and against itself.
async fn pending(stage: &Stage, payment: &PaymentBuilder) -> anyhow::Result<Step> {
    let accepted = payment.sign();
    let (_, first) = stage.client.verify(accepted.body()).await?;
    let (_, second) = stage.client.verify(accepted.body()).await?;
    let other = payment.clone().nonce(accepted.nonce()).amount(2 * PRICE).sign();
    let other = Observed::watch(stage, other).await?;
    let code = Code::NonceAlreadyUsed.as_str();
    let mut step = other.refused("rule 5  nonce held by a payment /verify accepted", code);
    step.expect("the payment that holds the nonce, isValid", true, &first["isValid"]);
    step.expect("the same again, isValid", false, &second["isValid"]);
    step.expect("the same again, invalidReason", json!(code), &second["invalidReason"]);
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
        let undeployed = chain.wallet_address(owner, Self::salt()).await?;
        let mut unlisted_chain = chain.clone();
        unlisted_chain.wallet_factory = chain.deploy_contract("WalletFactory", &[]).await?;
        let unlisted = unlisted_chain.wallet_address(owner, Self::salt()).await?;
        let cast = Self { wallet, undeployed, unlisted, unlisted_chain };
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
            ("payer of 4, deployed by its payment", self.undeployed),
            ("payer of 6 to 10 and 12, EOA", dev_address(PAYER_REFUSED)),
            ("payer of 11, sent by somebody else", dev_address(PAYER_ELSEWHERE)),
            ("payer of 13, never deployed", self.unlisted),
        ]
    }

    fn salt() -> B256 {
        salt("quittance demo")
    }

    /// A payment by a wallet that is still to be deployed by `chain`'s factory.
    async fn by_undeployed(
        &self,
        stage: &Stage,
        chain: &DevChain,
        wallet: Address,
    ) -> anyhow::Result<SignedPayment> {
        let calldata = DevChain::wallet_calldata(dev_address(WALLET_OWNER), Self::salt());
        let payment = builder(stage).await?.wallet(wallet, dev_signer(WALLET_OWNER)).sign();
        Ok(payment.erc6492(chain.wallet_factory, &calldata))
    }
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

    fn settled(&mut self, hash: Option<B256>) {
        self.settled.extend(hash);
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
                address,
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

        let mut step = Step::new(&format!("the facilitator sent {sent} transactions, {gas} gas in all"));
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
