//! Everyone who can pay, each with money and a way to sign.

use crate::support::online::Online;
use alloy_primitives::{Address, B256, Bytes, U256};
use quittance_testkit::{
    DevChain, PaymentBuilder, SignedPayment,
    dev_chain::salt,
    dev_signer,
    harness::{ConfigBuilder, process::Wait},
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of payers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A key.
    Eoa,
    /// A contract, 65 bytes of signature.
    Wallet,
    /// The same contract, 300 bytes.
    LongWallet,
    /// A key whose account has code by EIP-7702.
    Delegated,
    /// A contract that is not there yet, with all it takes to put it there.
    Undeployed,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Eoa, Self::Wallet, Self::LongWallet, Self::Delegated, Self::Undeployed];
}

const MONEY: u64 = 1_000_000;
/// Keys of the cast, by dev account.
pub(crate) const EOA: usize = 2;
pub(crate) const OWNER: usize = 4;
pub(crate) const DELEGATED: usize = 5;
/// Nobody's payer.
pub(crate) const STRANGER: usize = 7;

pub(crate) struct Cast {
    pub(crate) bench: Online,
    pub(crate) wallet: Address,
    salts: AtomicU64,
}

impl Cast {
    pub(crate) async fn start() -> Self {
        Self::start_with(|config| config).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(ConfigBuilder) -> ConfigBuilder) -> Self {
        Self::on(Online::start_with(change, Wait::Ready).await).await
    }

    pub(crate) async fn on(bench: Online) -> Self {
        let chain = &bench.chain;
        let wallet = chain.deploy_wallet1271(dev_signer(OWNER).address()).await.unwrap();
        let delegate = chain.deploy_contract("Delegate7702", &[]).await.unwrap();
        chain.set_7702_code(dev_signer(DELEGATED).address(), delegate).await.unwrap();
        let cast = Self { bench, wallet, salts: AtomicU64::new(0) };
        cast.fund(cast.bench.chain.token).await;
        cast
    }

    /// Gives everybody this token.
    pub(crate) async fn fund(&self, token: Address) {
        for payer in [dev_signer(EOA).address(), self.wallet, dev_signer(DELEGATED).address()] {
            self.bench.chain.mint(token, payer, U256::from(MONEY)).await.unwrap();
        }
    }

    pub(crate) async fn sign(&self, kind: Kind, builder: PaymentBuilder) -> SignedPayment {
        self.sign_as(kind, builder, None, |signature| signature).await
    }

    /// Signs with another key than the right one, or changes the 65 bytes before they are wrapped for `kind`.
    pub(crate) async fn sign_as(
        &self,
        kind: Kind,
        builder: PaymentBuilder,
        key: Option<usize>,
        change: impl FnOnce(Bytes) -> Bytes,
    ) -> SignedPayment {
        let owner = dev_signer(key.unwrap_or(OWNER));
        let own = |index: usize| (dev_signer(index).address(), dev_signer(key.unwrap_or(index)));
        let mut salt = B256::ZERO;
        let (payer, key) = match kind {
            Kind::Eoa => own(EOA),
            Kind::Delegated => own(DELEGATED),
            Kind::Wallet | Kind::LongWallet => (self.wallet, owner),
            Kind::Undeployed => {
                salt = self.salt();
                (self.undeployed(salt).await, owner)
            }
        };
        let payment = builder.wallet(payer, key).sign();
        let signature = change(payment.signature().clone());
        match kind {
            Kind::Eoa | Kind::Wallet | Kind::Delegated => payment.with_signature(signature),
            Kind::LongWallet => payment.with_signature([&signature[..], &[0xab; 235]].concat()),
            Kind::Undeployed => {
                let create = DevChain::wallet_calldata(dev_signer(OWNER).address(), salt);
                payment.with_signature(signature).erc6492(self.bench.chain.wallet_factory, &create)
            }
        }
    }

    /// A salt nobody used.
    pub(crate) fn salt(&self) -> B256 {
        salt(&self.salts.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// Where the owner's wallet of this salt will be; it has money already.
    pub(crate) async fn undeployed(&self, salt: B256) -> Address {
        let chain = &self.bench.chain;
        let wallet = chain.wallet_address(dev_signer(OWNER).address(), salt).await.unwrap();
        chain.mint(chain.token, wallet, U256::from(MONEY)).await.unwrap();
        wallet
    }

    /// Whether the payment executes when somebody else sends it as it is; nothing is left of the attempt.
    pub(crate) async fn executes(&self, payment: &SignedPayment) -> bool {
        self.attempt(payment, async |chain| chain.settle_elsewhere(payment).await.unwrap().success).await
    }

    /// The same through the overload with `v`, `r`, `s`.
    pub(crate) async fn executes_split(&self, payment: &SignedPayment) -> bool {
        let call = payment.transfer_call_vrs().unwrap();
        self.attempt(payment, async |chain| {
            let sender = dev_signer(STRANGER).address();
            chain.send(sender, Some(payment.asset()), call).await.unwrap().success
        })
        .await
    }

    async fn attempt(&self, payment: &SignedPayment, send: impl AsyncFnOnce(&DevChain) -> bool) -> bool {
        let chain = &self.bench.chain;
        let snapshot = self.bench.anvil.snapshot().await.unwrap();
        let before = chain.balance_of(payment.asset(), payment.recipient()).await.unwrap();
        let success = send(chain).await;
        let after = chain.balance_of(payment.asset(), payment.recipient()).await.unwrap();
        self.bench.anvil.revert(snapshot).await.unwrap();
        success && (payment.payer() == payment.recipient() || after == before + payment.value())
    }
}
