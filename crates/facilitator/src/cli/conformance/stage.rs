//! Puts what a case describes on the chain: its payer, money, and the state before the request.

use super::{
    abi::IDevToken,
    case::{Balance, Case, Delegate, Edit, Listed, Nonce, Payer, Replay, Token},
    contracts::{Contract, Contracts},
    keys::Seed,
    node::{Node, Transaction},
    probe,
    signature::Signing,
    terms::{Names, Terms},
    word::{FactorySpec, Number, Parties, SignatureSpec},
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall as _, SolValue as _};
use anyhow::{Context as _, ensure};
use quittance_testkit::{
    DevChain, X402Version,
    abi::{IBytesAuthorization, IToken, IWalletFactory, TransferWithAuthorization},
};

/// What every payer has unless the case says otherwise.
const PLENTY: u64 = 1_000_000_000;
const AMOUNT: u64 = 10_000;
/// Storage slot of the tokens' used nonces (contracts/test/Eip3009Base.sol).
const USED_SLOT: u64 = 8;

/// The chain, with everything on it that cases share.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) node: Node,
    pub(super) contracts: Contracts,
    pub(super) names: Names,
    pub(super) seed: Seed,
    pub(super) facilitator_signer: Option<Address>,
}

/// When a case plays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The wall clock's second in which the facilitator is to judge.
    pub(super) now: u64,
    /// Time of the newest block then.
    pub(super) block: u64,
}

impl Times {
    pub(super) fn of(case: &Case, now: u64) -> Self {
        Self { now, block: case.mutations.chain.block_time.map_or(now, |time| time.time(now)) }
    }

    /// Time of the blocks in which the state is made.
    fn before(self) -> u64 {
        self.now.min(self.block)
    }
}

/// A case made concrete.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) token: Token,
    pub(super) terms: Terms,
    /// Presented first, when the case is about a replay.
    pub(super) first: Option<Terms>,
    pub(super) edits: Vec<Edit>,
    pub(super) times: Times,
}

struct Cast {
    payer: Address,
    signing: Signing,
    signature: SignatureSpec,
}

impl Stage {
    /// Stages a case anew: `turn` tells repetitions apart.
    pub(super) async fn prepare(
        &self,
        case: &Case,
        version: X402Version,
        times: Times,
        turn: &str,
    ) -> anyhow::Result<Scene> {
        let seed = self.seed.derive(&format!("{} {} {turn}", case.id, version.number()));
        let cast = self.cast(case, seed, times.before()).await?;
        let asset = self.asset(case, seed, times.before()).await?;
        let payer = cast.payer;
        let mut terms = self.terms(case, version, times.now, seed, cast, asset);
        self.state(case, &terms, payer, times.before()).await?;
        let mut first = None;
        if let Some(replay) = case.mutations.replay {
            first = Some(terms.clone());
            self.second(&mut terms, replay, case, seed, times.before()).await?;
            if replay == Replay::SamePaymentOtherVersion
                && let Some(first) = &mut first
            {
                first.version = other(version);
            }
        }
        Ok(Scene { token: case.token, terms, first, edits: case.mutations.wire.clone(), times })
    }

    /// The payer, with its code.
    async fn cast(&self, case: &Case, seed: Seed, time: u64) -> anyhow::Result<Cast> {
        let (key, salt) = (seed.key("payer")?, seed.word("wallet"));
        let wallet = |name: &str| Contract::plain(name, salt);
        let payer = match case.payer {
            Payer::Eoa => key.address(),
            Payer::Wallet1271 => Contract::wallet1271(key.address(), salt)?.deploy(&self.node, time).await?,
            Payer::Wallet1271Rejecting => wallet("Wallet1271Rejecting")?.deploy(&self.node, time).await?,
            Payer::Wallet1271Reverting => wallet("Wallet1271Reverting")?.deploy(&self.node, time).await?,
            Payer::Wallet1271BadPadding => wallet("Wallet1271BadPadding")?.deploy(&self.node, time).await?,
            Payer::Wallet1271Short => wallet("Wallet1271Short")?.deploy(&self.node, time).await?,
            Payer::Wallet1271GasBurner => wallet("Wallet1271GasBurner")?.deploy(&self.node, time).await?,
            Payer::Wallet1271ReturnBomb => wallet("Wallet1271ReturnBomb")?.deploy(&self.node, time).await?,
            Payer::Delegated7702 => {
                let delegate = match case.mutations.chain.delegate {
                    Some(Delegate::Rejecting) => self.contracts.rejecting_delegate,
                    None => self.contracts.delegate,
                };
                let code: Bytes = [&[0xef, 0x01, 0x00], delegate.as_slice()].concat().into();
                self.node.set_code(key.address(), &code).await?;
                key.address()
            }
            Payer::Undeployed => self.undeployed(case, key.address(), salt).await?,
        };
        let default = match case.payer {
            Payer::Undeployed => SignatureSpec::Wrapped(Box::default()),
            _ => SignatureSpec::LowS,
        };
        let signing = Signing {
            deploy: DevChain::wallet_calldata(key.address(), salt),
            key,
            stranger: seed.key("stranger")?,
            factories: self.contracts.factories.clone(),
        };
        Ok(Cast { payer, signing, signature: case.mutations.signature.clone().unwrap_or(default) })
    }

    /// Where the case's factory would put the wallet of `owner`.
    async fn undeployed(&self, case: &Case, owner: Address, salt: B256) -> anyhow::Result<Address> {
        let spec = match &case.mutations.signature {
            Some(SignatureSpec::Wrapped(wrapper)) if wrapper.factory != FactorySpec::Zero => wrapper.factory,
            _ => FactorySpec::default(),
        };
        let factory = match spec {
            FactorySpec::Listed(factory) => self.contracts.factories.listed(factory)?,
            FactorySpec::Unlisted(factory) => self.contracts.factories.unlisted(factory)?,
            FactorySpec::Zero => Address::ZERO,
        };
        self.node.read(factory, &IWalletFactory::getAddressCall { owner, salt }).await
    }

    async fn asset(&self, case: &Case, seed: Seed, time: u64) -> anyhow::Result<Address> {
        if case.mutations.asset.is_some() {
            return Ok(seed.address("asset without code"));
        }
        if case.mutations.chain.paused {
            // An instance of its own: nobody else's payments stop.
            let token = Contract::token(case.token, seed.word("token"))?.deploy(&self.node, time).await?;
            return Ok(token);
        }
        Contracts::token(case.token)
    }

    fn terms(
        &self,
        case: &Case,
        version: X402Version,
        now: u64,
        seed: Seed,
        cast: Cast,
        asset: Address,
    ) -> Terms {
        let m = &case.mutations;
        let parties = Parties {
            payer: cast.payer,
            token: asset,
            other: seed.address("other"),
            facilitator_signer: self.facilitator_signer.unwrap_or_default(),
        };
        let number = |number: Option<Number>, or: u64| number.map_or(U256::from(or), |number| number.at(now));
        let amount = number(m.amount, AMOUNT);
        let seller = seed.address("seller");
        let shown = TransferWithAuthorization {
            from: m.from.map_or(cast.payer, |word| word.among(&parties)),
            to: m.to.map_or(seller, |word| word.among(&parties)),
            value: m.value.map_or(U256::from(AMOUNT), |value| value.of(amount, now)),
            validAfter: number(m.valid_after, now.saturating_sub(600)),
            validBefore: number(m.valid_before, now.saturating_add(300)),
            nonce: seed.word("nonce"),
        };
        let declared = m.declared.clone().unwrap_or_default();
        let mut terms = Terms {
            version,
            chain_id: self.names.chain_id,
            asset,
            pay_to: m.pay_to.map_or(seller, |word| word.among(&parties)),
            amount,
            name: declared.name.unwrap_or_else(|| Some("USDC".to_owned())),
            domain_version: declared.version.unwrap_or_else(|| Some("2".to_owned())),
            shown,
            signed: None,
            signature: cast.signature,
            signing: cast.signing,
        };
        if let Some(signed) = &m.signed {
            let (mut message, mut domain) = (terms.shown.clone(), terms.declared());
            message.value = signed.value.map_or(message.value, |value| value.of(amount, now));
            message.validAfter = signed.valid_after.map_or(message.validAfter, |at| at.at(now));
            message.validBefore = signed.valid_before.map_or(message.validBefore, |at| at.at(now));
            message.nonce = signed.nonce.map_or(message.nonce, |_| seed.word("other nonce"));
            message.to = signed.to.map_or(message.to, |_| parties.other);
            domain.chain_id = signed.chain_id.unwrap_or(domain.chain_id);
            domain.contract = signed.verifying_contract.map_or(domain.contract, |_| parties.other);
            domain.name = signed.name.clone().unwrap_or(domain.name);
            domain.version = signed.version.clone().unwrap_or(domain.version);
            terms.signed = Some((message, domain));
        }
        terms
    }

    /// Money, deny list, pause, nonce.
    async fn state(&self, case: &Case, terms: &Terms, payer: Address, time: u64) -> anyhow::Result<()> {
        let state = &case.mutations.chain;
        let balance = match state.payer_balance {
            None => U256::from(PLENTY),
            Some(Balance::Amount) => terms.amount,
            Some(Balance::OneShort) => terms.amount.saturating_sub(U256::from(1)),
            Some(Balance::Zero) => U256::ZERO,
        };
        if case.mutations.asset.is_none() && !balance.is_zero() {
            let mint = IToken::mintCall { to: payer, amount: balance };
            self.node.must(terms.asset, &mint, time).await?;
        }
        let listed = match state.blacklisted {
            Some(Listed::Payer) => Some(payer),
            Some(Listed::PayTo) => Some(terms.pay_to),
            None => None,
        };
        if let Some(account) = listed {
            self.node.must(terms.asset, &IDevToken::blacklistCall { account }, time).await?;
        }
        match state.nonce {
            None => {}
            // A payer with code might not vouch for what uses the nonce up.
            Some(_) if case.payer != Payer::Eoa => self.mark_used(terms).await?,
            Some(Nonce::Used) => {
                let used = self.node.transfer(&probe::direct(terms, case.token)?, time).await?;
                ensure!(used, "the transfer that uses the nonce up reverted");
            }
            Some(Nonce::Canceled) => {
                let (authorizer, nonce) = (terms.shown.from, terms.shown.nonce);
                let signature = terms.cancel_signature()?;
                let cancel = IBytesAuthorization::cancelAuthorizationCall { authorizer, nonce, signature };
                let cancel = Transaction { to: terms.asset, data: cancel.abi_encode().into() };
                ensure!(self.node.transfer(&cancel, time).await?, "the cancellation reverted");
            }
        }
        if state.paused {
            self.node.must(terms.asset, &IDevToken::pauseCall {}, time).await?;
        }
        Ok(())
    }

    /// Writes the nonce into the token's storage, and sees whether the token reads it there.
    async fn mark_used(&self, terms: &Terms) -> anyhow::Result<()> {
        let (authorizer, nonce) = (terms.shown.from, terms.shown.nonce);
        let inner = keccak256((authorizer, U256::from(USED_SLOT)).abi_encode());
        let slot = keccak256((nonce, inner).abi_encode());
        self.node.set_storage(terms.asset, slot, B256::with_last_byte(1)).await?;
        let used = self.node.read(terms.asset, &IToken::authorizationStateCall { authorizer, nonce }).await?;
        ensure!(used, "the token keeps its nonces elsewhere");
        Ok(())
    }

    /// Makes the second payment of a replay out of the first.
    async fn second(
        &self,
        terms: &mut Terms,
        replay: Replay,
        case: &Case,
        seed: Seed,
        time: u64,
    ) -> anyhow::Result<()> {
        let mint = |to: Address| IToken::mintCall { to, amount: U256::from(PLENTY) };
        let m = &mut terms.shown;
        match replay {
            Replay::SamePayment | Replay::SamePaymentOtherVersion => {}
            Replay::SamePaymentParity => terms.signature = SignatureSpec::Parity,
            Replay::SamePaymentOtherSignature => terms.signature = SignatureSpec::Length(300),
            Replay::SameNonceOtherValue => {
                m.value = U256::from(20_000);
                terms.amount = m.value;
            }
            Replay::SameNonceOtherRecipient => {
                m.to = seed.address("other");
                terms.pay_to = m.to;
            }
            Replay::SameNonceOtherWindow => m.validBefore = m.validBefore.saturating_add(U256::from(60)),
            Replay::SameNonceOtherPayer => {
                terms.signing.key = seed.key("another payer")?;
                m.from = terms.signing.key.address();
                let from = m.from;
                self.node.must(terms.asset, &mint(from), time).await?;
            }
            Replay::SameNonceOtherToken => {
                let token = Contract::token(case.token, seed.word("another token"))?;
                terms.asset = token.deploy(&self.node, time).await?;
                self.node.must(terms.asset, &mint(terms.shown.from), time).await?;
            }
            Replay::OtherNonce => m.nonce = seed.word("another nonce"),
        }
        Ok(())
    }

    /// The name of the network for these terms.
    pub(super) fn network(&self, terms: &Terms) -> anyhow::Result<&str> {
        self.names.of(terms.version).context("this version is not served")
    }
}

fn other(version: X402Version) -> X402Version {
    match version {
        X402Version::V1 => X402Version::V2,
        X402Version::V2 => X402Version::V1,
    }
}
