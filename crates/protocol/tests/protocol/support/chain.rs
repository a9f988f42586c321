//! A small chain: the tokens, wallets and factories of `contracts/test`, enough of them to say what a transfer does and
//! what the lens would report about it.

use super::{
    CHAIN_ID, NOW, address,
    eip712::{Domain, Message, digest},
    network, sig,
};
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_sol_types::{SolCall, SolValue, sol};
use quittance_protocol::{
    facts::{Block, ChainFacts, Erc1271Answer, PayerCode, Simulation},
    rules::Policy,
    scheme::exact_eip3009::{Call, deployable, deploying_questions, direct_calls},
    units::UnixSeconds,
    wire::Request,
};
use std::collections::{HashMap, HashSet};

mod abi {
    use super::sol;
    sol! {
        interface Vrs {
            function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s);
        }
        interface Sig {
            function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature);
        }
        interface Factory {
            function createWallet(address owner, bytes32 salt) returns (address);
        }
        struct Call3 { address target; bool allowFailure; bytes callData; }
        interface Multicall {
            function aggregate3(Call3[] calls);
        }
    }
}

const SALT: B256 = B256::repeat_byte(0x5a);
const MULTICALL3: Address = alloy_primitives::address!("cA11bde05977b3631167028862bE2a173976CA11");

/// Tokens of contracts/test/Tokens.sol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Fiat,
    Lenient,
    VrsOnly,
    BytesOnly,
    FeeOnTransfer,
    Silent,
    Plain,
    Eip5267,
}

impl TokenKind {
    pub fn named(name: &str) -> Self {
        match name {
            "FiatToken" => Self::Fiat,
            "LenientToken" => Self::Lenient,
            "VrsOnlyToken" => Self::VrsOnly,
            "BytesOnlyToken" => Self::BytesOnly,
            "FeeOnTransferToken" => Self::FeeOnTransfer,
            "SilentToken" => Self::Silent,
            "PlainToken" => Self::Plain,
            "Eip5267Token" => Self::Eip5267,
            other => panic!("no such token: {other}"),
        }
    }
}

/// Code at an account, of contracts/test/Wallets.sol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Vouches for signatures of its owner, whatever follows the first 65 bytes.
    Wallet1271 {
        owner: Address,
    },
    Rejecting,
    Reverting,
    BadPadding,
    Short,
    /// An EIP-7702 designator to Delegate7702: the account's own key signs.
    Delegated,
    /// An EIP-7702 designator to Wallet1271Rejecting.
    DelegatedRejecting,
    /// A contract that answers nothing the tests ask.
    Other,
}

/// Factories of contracts/test/Factories.sol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factory {
    Honest,
    Burner,
    Reenter,
    Elsewhere,
    Nothing,
    Drainer,
    UnlistedHonest,
    UnlistedDrainer,
}

impl Factory {
    pub const LISTED: [Self; 6] =
        [Self::Honest, Self::Burner, Self::Reenter, Self::Elsewhere, Self::Nothing, Self::Drainer];
    const UNLISTED: [Self; 2] = [Self::UnlistedHonest, Self::UnlistedDrainer];

    pub fn named(name: &str) -> Self {
        match name {
            "WalletFactory" => Self::Honest,
            "FactoryBurner" => Self::Burner,
            "FactoryReenter" => Self::Reenter,
            "FactoryElsewhere" => Self::Elsewhere,
            "FactoryNothing" => Self::Nothing,
            "FactoryDrainer" => Self::Drainer,
            "unlisted:WalletFactory" => Self::UnlistedHonest,
            "unlisted:FactoryDrainer" => Self::UnlistedDrainer,
            other => panic!("no such factory: {other}"),
        }
    }

    pub fn address(self) -> Address {
        address(&format!("factory {self:?}"))
    }

    fn at(address: Address) -> Option<Self> {
        Self::LISTED.into_iter().chain(Self::UNLISTED).find(|f| f.address() == address)
    }

    /// Where it says that the wallet of `owner` belongs.
    pub fn wallet_of(self, owner: Address) -> Address {
        self.wallet_at(owner, SALT)
    }

    fn wallet_at(self, owner: Address, salt: B256) -> Address {
        Address::from_word(keccak256((self.address(), owner, salt).abi_encode()))
    }

    /// Calldata that asks it for the wallet of `owner`.
    pub fn create_wallet(owner: Address) -> Vec<u8> {
        abi::Factory::createWalletCall { owner, salt: SALT }.abi_encode()
    }
}

/// A chain with one token.
#[derive(Clone, Debug)]
pub struct Chain {
    pub block_time: u64,
    pub token: Address,
    pub kind: TokenKind,
    pub token_has_code: bool,
    pub name: String,
    pub version: String,
    pub paused: bool,
    pub blacklisted: HashSet<Address>,
    pub used: HashSet<(Address, B256)>,
    pub balances: HashMap<Address, U256>,
    pub code: HashMap<Address, Code>,
    pub gas_per_call: u64,
}

type Outcome = Result<(), &'static str>;

impl Chain {
    /// A FiatToken called USDC, version 2.
    pub fn new() -> Self {
        let shared = |name| (name, Code::Other);
        Self {
            block_time: NOW,
            token: address("token"),
            kind: TokenKind::Fiat,
            token_has_code: true,
            name: "USDC".into(),
            version: "2".into(),
            paused: false,
            blacklisted: HashSet::new(),
            used: HashSet::new(),
            balances: HashMap::new(),
            code: [shared(MULTICALL3)].into(),
            gas_per_call: 60_000,
        }
    }

    fn balance(&self, of: Address) -> U256 {
        self.balances.get(&of).copied().unwrap_or_default()
    }

    pub fn domain(&self) -> Domain {
        Domain {
            name: self.name.clone(),
            version: self.version.clone(),
            chain_id: CHAIN_ID,
            verifying_contract: self.token,
        }
    }

    /// Sends the transfer to the token with the signature as it came: 65 bytes by either overload, `v` as 27 or 28; others
    /// by the `bytes` overload.
    pub fn send_directly(&mut self, message: &Message, signature: &[u8]) -> Outcome {
        if !self.token_has_code {
            return Ok(());
        }
        let (vrs, bytes) = self.overloads();
        let mut signature = signature.to_vec();
        if signature.len() == 65 && signature[64] < 2 {
            signature[64] += 27;
        }
        if if signature.len() == 65 { vrs || bytes } else { bytes } {
            self.transfer_with_authorization(message, &signature)
        } else {
            Err("")
        }
    }

    /// Sends what the factory is asked for and the transfer with the wrapped signature, both or none.
    pub fn send_unwrapped(&mut self, message: &Message, signature: &[u8]) -> Outcome {
        let sig::Read::Wrapper { factory, calldata, inner } = sig::read(signature) else {
            return Err("not a wrapper");
        };
        let before = self.clone();
        let outcome = match (factory.is_zero() || calldata.is_empty(), Factory::at(factory)) {
            (false, Some(factory)) => self.deploy(factory, &calldata),
            _ => Ok(()),
        }
        .and_then(|()| self.send_directly(message, &inner));
        if outcome.is_err() {
            *self = before;
        }
        outcome
    }

    fn overloads(&self) -> (bool, bool) {
        match self.kind {
            TokenKind::Plain => (false, false),
            TokenKind::VrsOnly => (true, false),
            TokenKind::BytesOnly => (false, true),
            _ => (true, true),
        }
    }

    fn transfer_with_authorization(&mut self, m: &Message, signature: &[u8]) -> Outcome {
        let now = U256::from(self.block_time);
        let require = |condition: bool, text: &'static str| if condition { Ok(()) } else { Err(text) };
        require(!self.paused, "Pausable: paused")?;
        let listed = self.blacklisted.contains(&m.from) || self.blacklisted.contains(&m.to);
        require(!listed, "Blacklistable: account is blacklisted")?;
        require(now > m.valid_after, "FiatTokenV2: authorization is not yet valid")?;
        require(now < m.valid_before, "FiatTokenV2: authorization is expired")?;
        require(!self.used.contains(&(m.from, m.nonce)), "FiatTokenV2: authorization is used or canceled")?;
        self.signed_by(m.from, digest(m, self.domain().separator()), signature)?;
        if self.kind != TokenKind::Silent {
            require(m.value <= self.balance(m.from), "ERC20: transfer amount exceeds balance")?;
            let fee =
                if self.kind == TokenKind::FeeOnTransfer { m.value / U256::from(100) } else { U256::ZERO };
            *self.balances.entry(m.from).or_default() -= m.value;
            *self.balances.entry(m.to).or_default() += m.value - fee;
        }
        self.used.insert((m.from, m.nonce));
        Ok(())
    }

    fn signed_by(&self, signer: Address, digest: B256, signature: &[u8]) -> Outcome {
        let refused = Err("FiatTokenV2: invalid signature");
        if self.code.contains_key(&signer) && self.kind != TokenKind::VrsOnly {
            return if self.ask_wallet(signer, digest, signature).is_magic() { Ok(()) } else { refused };
        }
        if signature.len() != 65 {
            return Err("ECRecover: invalid signature length");
        }
        let half: U256 = sig::ORDER >> 1;
        if self.kind != TokenKind::Lenient && U256::from_be_slice(&signature[32..64]) > half {
            return Err("ECRecover: invalid signature 's' value");
        }
        if !matches!(signature[64], 27 | 28) {
            return Err("ECRecover: invalid signature 'v' value");
        }
        match sig::ecrecover(digest, signature) {
            None => Err("ECRecover: invalid signature"),
            Some(recovered) if recovered == signer => Ok(()),
            Some(_) => refused,
        }
    }

    fn ask_wallet(&self, wallet: Address, digest: B256, signature: &[u8]) -> Erc1271Answer {
        const MAGIC: u32 = 0x1626_ba7e;
        let answer = |success: bool, return_size: u64, first: u32, last: u8| {
            let mut word = B256::ZERO;
            word[..4].copy_from_slice(&first.to_be_bytes());
            word[31] = last;
            Erc1271Answer { success, return_size, word }
        };
        let key = match self.code.get(&wallet) {
            Some(Code::Wallet1271 { owner }) => *owner,
            Some(Code::Delegated) => wallet,
            Some(Code::Rejecting | Code::DelegatedRejecting) => return answer(true, 32, 0xffff_ffff, 0),
            Some(Code::BadPadding) => return answer(true, 32, MAGIC, 0xef),
            // The lens leaves the word of a short answer out.
            Some(Code::Short) => return answer(true, 4, 0, 0),
            Some(Code::Reverting | Code::Other) => return answer(false, 0, 0, 0),
            None => return answer(true, 0, 0, 0),
        };
        let signed = signature.get(..65).and_then(|plain| sig::ecrecover(digest, plain)) == Some(key);
        answer(true, 32, if signed { MAGIC } else { 0xffff_ffff }, 0)
    }

    fn deploy(&mut self, factory: Factory, calldata: &[u8]) -> Outcome {
        let Ok(call) = abi::Factory::createWalletCall::abi_decode(calldata) else { return Err("") };
        let salt = match factory {
            Factory::Burner => return Err(""),
            Factory::Nothing => return Ok(()),
            Factory::Elsewhere => keccak256(call.salt),
            _ => call.salt,
        };
        self.code.insert(factory.wallet_at(call.owner, salt), Code::Wallet1271 { owner: call.owner });
        Ok(())
    }

    fn execute(&mut self, to: Address, data: &[u8]) -> Outcome {
        if to == self.token {
            let (vrs, bytes) = self.overloads();
            if let (true, Ok(c)) = (vrs, abi::Vrs::transferWithAuthorizationCall::abi_decode(data)) {
                let signature = [c.r.as_slice(), c.s.as_slice(), &[c.v]].concat();
                let m = message(c.from, c.to, c.value, c.validAfter, c.validBefore, c.nonce);
                return self.transfer_with_authorization(&m, &signature);
            }
            if let (true, Ok(c)) = (bytes, abi::Sig::transferWithAuthorizationCall::abi_decode(data)) {
                let m = message(c.from, c.to, c.value, c.validAfter, c.validBefore, c.nonce);
                return self.transfer_with_authorization(&m, &c.signature);
            }
            return Err("");
        }
        if to == MULTICALL3 {
            let calls = abi::Multicall::aggregate3Call::abi_decode(data).expect("a multicall").calls;
            for call in calls {
                if self.execute(call.target, &call.callData).is_err() {
                    assert!(!call.allowFailure, "no part of a settlement may fail");
                    return Err("Multicall3: call failed");
                }
            }
            return Ok(());
        }
        self.deploy(Factory::at(to).expect("nothing else is ever called"), data)
    }

    fn simulate(&self, request: &Request, call: &Call, digest: B256) -> Simulation {
        let mut frame = self.clone();
        let outcome = if !self.token_has_code && call.to == self.token {
            Err("")
        } else {
            frame.execute(call.to, &call.data)
        };
        let payer = request.payment.authorization.from;
        let appeared = !self.code.contains_key(&payer) && frame.code.contains_key(&payer);
        let success = outcome.is_ok();
        Simulation {
            success,
            gas_used: self.gas_per_call,
            return_data: outcome.err().map(revert_data).unwrap_or_default(),
            pay_to_balance_after: success.then(|| frame.balance(request.requirement.pay_to)),
            payer_has_code_after: success && frame.code.contains_key(&payer),
            erc1271_after: (success && appeared)
                .then(|| frame.ask_wallet(payer, digest, request.payment.signature.for_contract())),
        }
    }

    fn simulations(&self, request: &Request, calls: &[Call], digest: B256) -> Vec<Simulation> {
        let mut ran = Vec::new();
        for call in calls {
            ran.push(self.simulate(request, call, digest));
            if ran.last().is_some_and(|s| s.success) {
                break;
            }
        }
        ran
    }

    /// What the lens reports.
    pub fn facts(&self, request: &Request, policy: &Policy) -> ChainFacts {
        let (payment, requirement) = (&request.payment, &request.requirement);
        let (a, has) = (&payment.authorization, self.token_has_code);
        let eip3009 = has && self.kind != TokenKind::Plain;
        let digest = digest(
            &message(a.from, a.to, a.value.0, a.valid_after, a.valid_before, a.nonce.0),
            Domain {
                name: requirement.domain_name.clone().unwrap_or_default(),
                version: requirement.domain_version.clone().unwrap_or_default(),
                chain_id: CHAIN_ID,
                verifying_contract: requirement.asset,
            }
            .separator(),
        );
        let code = self.code.get(&a.from);
        ChainFacts {
            block: Block {
                network: network(),
                number: 100,
                timestamp: UnixSeconds(self.block_time),
                base_fee: 1,
            },
            payer_code: match code {
                None => PayerCode::Empty,
                Some(Code::Delegated | Code::DelegatedRejecting) => PayerCode::Delegated(address("delegate")),
                Some(_) => PayerCode::Contract,
            },
            asset_has_code: has,
            authorization_state: eip3009.then(|| self.used.contains(&(a.from, a.nonce.0))),
            payer_balance: has.then(|| self.balance(a.from)),
            pay_to_balance: has.then(|| self.balance(requirement.pay_to)),
            domain_separator: (eip3009 && self.kind != TokenKind::Eip5267).then(|| self.domain().separator()),
            eip5267: (has && self.kind == TokenKind::Eip5267)
                .then(|| (self.name.clone(), self.version.clone())),
            token_name: has.then(|| self.name.clone()),
            token_version: eip3009.then(|| self.version.clone()),
            erc1271: code.map(|_| self.ask_wallet(a.from, digest, payment.signature.for_contract())),
            direct: self.simulations(request, &direct_calls(payment, requirement.asset), digest),
            deploying: deployable(payment, &policy.wallet_factories)
                .map(|wrapper| {
                    let calls = deploying_questions(payment, requirement.asset, wrapper);
                    self.simulations(request, &calls, digest)
                })
                .unwrap_or_default(),
        }
    }
}

fn message(
    from: Address,
    to: Address,
    value: U256,
    valid_after: U256,
    valid_before: U256,
    nonce: B256,
) -> Message {
    Message { from, to, value, valid_after, valid_before, nonce }
}

/// `Error(string)`, or nothing for no text.
pub fn revert_data(text: &str) -> Bytes {
    if text.is_empty() {
        return Bytes::new();
    }
    let mut padded = text.as_bytes().to_vec();
    padded.resize(text.len().div_ceil(32) * 32, 0);
    let word = |n: usize| U256::from(n).to_be_bytes::<32>();
    [[0x08, 0xc3, 0x79, 0xa0].as_slice(), &word(32), &word(text.len()), &padded].concat().into()
}
