//! Everything `/verify` needs, at one block, in one `eth_call` (docs/ARCHITECTURE.md, "Facts").

mod next_block;

use crate::{RpcFault, pool::RpcPool};
use alloy_primitives::{Address, B256, Bytes, U64, U256, hex};
use alloy_sol_types::{SolCall, SolValue, sol};
use quittance_protocol::{
    facts::{Block, ChainFacts, Erc1271Answer, PayerCode, Simulation},
    rules::Policy,
    scheme::exact_eip3009::{
        Call as TransferCall, declared_domain, deployable, deploying_questions, digest, direct_calls,
    },
    settlement::NewPayment,
    units::{Network, UnixSeconds},
    wire::Request,
};
use serde_json::{Value, json};
use std::sync::LazyLock;

sol! {
    struct Call { address to; bytes data; }
    struct Probe {
        address asset; address payer; address payTo; bytes32 authNonce;
        bytes32 digest; bytes signature;
        Call[] candidates;
        uint256 gasMax;
    }
    struct Read { bool success; bytes data; }
    struct Erc1271 { bool asked; bool success; uint256 returnSize; bytes32 word; }
    struct Simulated {
        bool success; uint256 gasUsed; bytes returnData; Read payToBalanceAfter; uint256 payerCodeSizeAfter;
        Erc1271 erc1271After;
    }
    struct Answer {
        uint256 payerCodeSize; bytes payerCodePrefix; uint256 assetCodeSize;
        Read authorizationState; Read payerBalance; Read payToBalance; Read domainSeparator; Read name; Read version;
        Read eip712Domain;
        Erc1271 erc1271;
        Simulated[] simulations;
    }
    struct BlockFacts { uint256 number; uint256 timestamp; uint256 chainId; uint256 baseFee; uint256[] laneBalances; }

    interface Eip5267 {
        function eip712Domain() returns (bytes1 fields, string name, string version, uint256 chainId, address verifyingContract, bytes32 salt, uint256[] extensions);
    }
}

const METHOD: &str = "eth_call";
const LATEST: &str = "latest";
/// How often facts are read again that come from an older block than others before them. What is as old then is believed: a chain
/// that has gone back looks no different.
const READ_AGAIN_MAX: usize = 2;

static CREATION_CODE: LazyLock<Bytes> = LazyLock::new(|| {
    let artifact: Value =
        serde_json::from_str(include_str!("../../../contracts/artifacts/Lens.json")).unwrap_or(Value::Null);
    let code = artifact.get("bytecode").and_then(Value::as_str).unwrap_or_default();
    hex::decode(code).unwrap_or_default().into()
});

/// What the chain said, and what our lanes hold.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Facts about the payment.
    pub facts: ChainFacts,
    /// Balance of each lane asked about, in wei, in the order asked.
    pub lane_balances: Vec<U256>,
}

/// Reads everything about one payment. One HTTP request, except when the latest block is older than a `validAfter` that
/// the wall clock has passed: then the call is run in the pending block too, because the next block is what settle will execute
/// in. What is there to be paid with is what the latest block says all the same.
pub async fn read(
    pool: &RpcPool,
    request: &Request,
    policy: &Policy,
    lanes: &[Address],
    now: UnixSeconds,
) -> Result<Reading, RpcFault> {
    read_since(pool, request, policy, lanes, now, 0).await
}

/// The same from a latest block that is not older than `since`: an older one is no answer.
pub async fn read_since(
    pool: &RpcPool,
    request: &Request,
    policy: &Policy,
    lanes: &[Address],
    now: UnixSeconds,
    since: u64,
) -> Result<Reading, RpcFault> {
    let probes = probes(request, policy);
    let latest = read_at(pool, request, &probes, lanes, LATEST, since).await?;
    let opens = request.payment.authorization.valid_after;
    if latest.facts.block.timestamp.to_u256() <= opens && now.to_u256() > opens {
        // A node that cannot answer for "pending" leaves us with the latest block's verdict: not yet valid. So does one that
        // answers for an older block, or for a world that is not the latest block's.
        let since = latest.facts.block.number;
        let pending = read_at(pool, request, &probes, lanes, "pending", since).await.ok();
        if let Some(facts) = pending.and_then(|pending| next_block::at_its_time(&latest.facts, pending.facts))
        {
            return Ok(Reading { facts, ..latest });
        }
    }
    Ok(latest)
}

/// Runs one call that is to execute a payment whose signature was believed before, in the latest block, which must be neither
/// older than `since` nor than what other facts were lately read in. The gas it uses if it moves exactly the amount; `None`: it does not, or the authorization is used.
pub async fn try_call(
    pool: &RpcPool,
    terms: &NewPayment,
    call: &TransferCall,
    gas_max: u64,
    lanes: &[Address],
    since: u64,
) -> Result<Option<u64>, RpcFault> {
    let probes = [Probe {
        asset: terms.key.verifying_contract,
        payer: terms.key.authorizer,
        payTo: terms.pay_to,
        authNonce: terms.key.auth_nonce.0,
        // The call asks the payer's contract itself.
        digest: B256::ZERO,
        signature: Bytes::new(),
        candidates: vec![Call { to: call.to, data: call.data.clone() }],
        gasMax: U256::from(gas_max),
    }];
    let since = since.max(pool.youngest());
    let understand = |at: Block, _, answers: Vec<Answer>| {
        not_before(since, &at)?;
        let answer = answers.first().ok_or_else(|| malformed("the lens did not answer"))?;
        facts(at, answer, simulations(answer, 1)?, Vec::new())
    };
    let facts = self::call(pool, &probes, lanes, LATEST, understand).await?;
    let moved = if terms.key.authorizer == terms.pay_to { U256::ZERO } else { terms.amount.0 };
    let expected = facts.pay_to_balance.and_then(|before| before.checked_add(moved));
    let executes = |simulation: &&Simulation| {
        simulation.success
            && facts.authorization_state == Some(false)
            && expected.is_some()
            && simulation.pay_to_balance_after == expected
    };
    Ok(facts.direct.first().filter(executes).map(|simulation| simulation.gas_used))
}

/// Whether the question about this payment can be put: nodes take only so much creation code (EIP-3860). A payment that is
/// too long to be asked about is so for every node and at any time, which is a verdict and no outage.
pub fn fits(request: &Request, policy: &Policy, lanes: &[Address]) -> bool {
    const INITCODE_BYTES_MAX: usize = 49_152;
    creation_code(&probes(request, policy), lanes).len() <= INITCODE_BYTES_MAX
}

/// Runs the lens without a question: whether this node can answer in one round trip at all.
pub async fn probe(pool: &RpcPool) -> Result<Block, RpcFault> {
    call(pool, &[], &[], LATEST, |block, _, _| Ok(block)).await
}

/// The direct transfer, and the deployment with transfer when an allow-listed factory is named.
fn probes(request: &Request, policy: &Policy) -> Vec<Probe> {
    let (payment, requirement) = (&request.payment, &request.requirement);
    let probe = |candidates: Vec<TransferCall>| Probe {
        asset: requirement.asset,
        payer: payment.authorization.from,
        payTo: requirement.pay_to,
        authNonce: payment.authorization.nonce.0,
        // Without a declared domain there is no digest; such a request is refused before it gets here.
        digest: declared_domain(requirement)
            .map(|domain| digest(&payment.authorization, &domain))
            .unwrap_or_default(),
        signature: payment.signature.for_contract().clone(),
        candidates: candidates.into_iter().map(|call| Call { to: call.to, data: call.data }).collect(),
        gasMax: U256::from(policy.gas_per_settlement_max),
    };
    let mut probes = vec![probe(direct_calls(payment, requirement.asset))];
    if let Some(wrapper) = deployable(payment, &policy.wallet_factories) {
        probes.push(probe(deploying_questions(payment, requirement.asset, wrapper)));
    }
    probes
}

fn creation_code(probes: &[Probe], lanes: &[Address]) -> Vec<u8> {
    let mut data = CREATION_CODE.to_vec();
    data.extend((probes.to_vec(), lanes.to_vec()).abi_encode_params());
    data
}

/// Asks one endpoint after the other until `understand` makes something of an answer. Again, if that is behind what was seen
/// before: one URL can be many nodes, of which some are late.
async fn call<T>(
    pool: &RpcPool,
    probes: &[Probe],
    lanes: &[Address],
    block: &'static str,
    understand: impl Fn(Block, Vec<U256>, Vec<Answer>) -> Result<T, RpcFault>,
) -> Result<T, RpcFault> {
    let data = Bytes::from(creation_code(probes, lanes));
    let mut transaction = json!({ "data": data, "gas": U64::from(gas(probes)) });
    if let (Some(lane), Some(object)) = (lanes.first(), transaction.as_object_mut()) {
        // Tokens may look at who pays for gas.
        object.insert("from".into(), json!(lane));
    }
    let params = json!([transaction, block]);
    let understand = |index, answer: Bytes| {
        let (block_facts, answers) = <(BlockFacts, Vec<Answer>)>::abi_decode_params_validate(&answer)
            .map_err(|_| malformed("not an answer of the lens"))?;
        if answers.len() != probes.len() || block_facts.laneBalances.len() != lanes.len() {
            return Err(malformed("the lens answered another question"));
        }
        let at = block_of(pool.network(), &block_facts)?;
        if block == LATEST {
            pool.saw_head(index, at.timestamp);
        }
        if !pool.keeps_up(index) {
            return Err(RpcFault::Lagging { method: METHOD });
        }
        Ok((index, at, understand(at, block_facts.laneBalances, answers)?))
    };
    let ask = async |last: Option<usize>| {
        let mut order = pool.in_order();
        // Stable: the others as they are.
        order.sort_by_key(|index| Some(*index) == last);
        pool.first_of(order, METHOD, &params, understand).await
    };
    let (mut index, mut at, mut understood) = ask(None).await?;
    if block != LATEST {
        return Ok(understood);
    }
    if pool.is_stale(index, at.timestamp).await {
        (index, at, understood) = ask(None).await?;
    }
    for _ in 0..READ_AGAIN_MAX {
        if !pool.is_behind(at.number) {
            break;
        }
        (index, at, understood) = ask(Some(index)).await?;
    }
    pool.judged_at(at.number);
    Ok(understood)
}

async fn read_at(
    pool: &RpcPool,
    request: &Request,
    probes: &[Probe],
    lanes: &[Address],
    block: &'static str,
    since: u64,
) -> Result<Reading, RpcFault> {
    let understand = |at: Block, lane_balances, answers: Vec<Answer>| {
        not_before(since, &at)?;
        let mut answers = answers.into_iter().zip(probes);
        let (direct, probe) = answers.next().ok_or_else(|| malformed("the lens did not answer"))?;
        let deploying = match answers.next() {
            Some((answer, probe)) => simulations(&answer, probe.candidates.len())?,
            None => Vec::new(),
        };
        let facts = facts(at, &direct, simulations(&direct, probe.candidates.len())?, deploying)?;
        debug_assert_eq!(probe.payer, request.payment.authorization.from);
        Ok(Reading { facts, lane_balances })
    };
    call(pool, probes, lanes, block, understand).await
}

/// Gas that lets every question and every simulation use its whole cap: a hungry contract then fails by its own hunger, not
/// by ours. Measured costs of the lens itself, rounded up.
fn gas(probes: &[Probe]) -> u64 {
    const LENS: u64 = 2_000_000;
    const PROBE: u64 = 4_000_000;
    probes.iter().fold(LENS, |sum, probe| {
        let cap = u64::try_from(probe.gasMax).unwrap_or(u64::MAX);
        // One question before, one after a deployment, and each candidate; 1/64 stays behind at every level.
        let runs = u64::try_from(probe.candidates.len()).unwrap_or(u64::MAX).saturating_add(2);
        sum.saturating_add(PROBE).saturating_add(cap.saturating_add(cap / 16).saturating_mul(runs))
    })
}

fn block_of(network: Network, block: &BlockFacts) -> Result<Block, RpcFault> {
    let chain_id = u64::try_from(block.chainId).map_err(|_| malformed("chain id"))?;
    if chain_id != network.chain_id() {
        return Err(RpcFault::WrongChain { expected: network.chain_id(), actual: chain_id });
    }
    Ok(Block {
        network,
        number: u64::try_from(block.number).map_err(|_| malformed("block number"))?,
        timestamp: UnixSeconds(u64::try_from(block.timestamp).map_err(|_| malformed("block timestamp"))?),
        base_fee: u128::try_from(block.baseFee).map_err(|_| malformed("base fee"))?,
    })
}

fn not_before(since: u64, block: &Block) -> Result<(), RpcFault> {
    if block.number < since { Err(RpcFault::Lagging { method: METHOD }) } else { Ok(()) }
}

fn facts(
    block: Block,
    answer: &Answer,
    direct: Vec<Simulation>,
    deploying: Vec<Simulation>,
) -> Result<ChainFacts, RpcFault> {
    let payer_code = payer_code(answer)?;
    let erc1271 = erc1271(&answer.erc1271);
    if !payer_code.is_empty() && erc1271.is_none() {
        return Err(malformed("too little gas to ask the payer's contract"));
    }
    let asset_has_code = !answer.assetCodeSize.is_zero();
    Ok(ChainFacts {
        block,
        payer_code,
        asset_has_code,
        authorization_state: word(&answer.authorizationState).and_then(|w| match w {
            w if w.is_zero() => Some(false),
            w if U256::from_be_bytes(w.0) == U256::from(1) => Some(true),
            _ => None,
        }),
        payer_balance: word(&answer.payerBalance).map(|w| U256::from_be_bytes(w.0)),
        pay_to_balance: word(&answer.payToBalance).map(|w| U256::from_be_bytes(w.0)),
        domain_separator: word(&answer.domainSeparator),
        eip5267: eip5267(&answer.eip712Domain),
        token_name: text(&answer.name),
        token_version: text(&answer.version),
        erc1271,
        direct,
        deploying,
    })
}

fn payer_code(answer: &Answer) -> Result<PayerCode, RpcFault> {
    const DESIGNATOR: [u8; 3] = [0xef, 0x01, 0x00];
    let size = answer.payerCodeSize;
    if size.is_zero() {
        return Ok(PayerCode::Empty);
    }
    let prefix = &answer.payerCodePrefix;
    if U256::from(prefix.len()) != size.min(U256::from(23)) {
        return Err(malformed("the payer's code"));
    }
    match prefix.strip_prefix(&DESIGNATOR) {
        Some(delegate) if size == U256::from(23) => Ok(PayerCode::Delegated(Address::from_slice(delegate))),
        _ => Ok(PayerCode::Contract),
    }
}

/// Each candidate ran, or an earlier one succeeded. Anything less means the node gave too little gas: no evidence.
fn simulations(answer: &Answer, candidates: usize) -> Result<Vec<Simulation>, RpcFault> {
    let ran = &answer.simulations;
    let succeeded = ran.last().is_some_and(|last| last.success);
    if ran.len() > candidates || (ran.len() < candidates && !succeeded) {
        return Err(malformed("too little gas to simulate the transfer"));
    }
    ran.iter()
        .map(|s| {
            let deployed = s.success && answer.payerCodeSize.is_zero() && !s.payerCodeSizeAfter.is_zero();
            if deployed && !s.erc1271After.asked {
                return Err(malformed("too little gas to ask the deployed payer"));
            }
            Ok(Simulation {
                success: s.success,
                gas_used: u64::try_from(s.gasUsed).map_err(|_| malformed("gas used"))?,
                return_data: s.returnData.clone(),
                pay_to_balance_after: word(&s.payToBalanceAfter).map(|w| U256::from_be_bytes(w.0)),
                payer_has_code_after: !s.payerCodeSizeAfter.is_zero(),
                erc1271_after: erc1271(&s.erc1271After),
            })
        })
        .collect()
}

fn erc1271(answer: &Erc1271) -> Option<Erc1271Answer> {
    answer.asked.then(|| Erc1271Answer {
        success: answer.success,
        return_size: u64::try_from(answer.returnSize).unwrap_or(u64::MAX),
        word: answer.word,
    })
}

/// Exactly one word: anything else is no answer.
fn word(read: &Read) -> Option<B256> {
    (read.success && read.data.len() == 32).then(|| B256::from_slice(&read.data))
}

fn text(read: &Read) -> Option<String> {
    if !read.success {
        return None;
    }
    String::abi_decode_validate(&read.data).ok()
}

fn eip5267(read: &Read) -> Option<(String, String)> {
    const NAME_AND_VERSION: u8 = 0b11;
    if !read.success {
        return None;
    }
    let domain = Eip5267::eip712DomainCall::abi_decode_returns_validate(&read.data).ok()?;
    (domain.fields.0[0] & NAME_AND_VERSION == NAME_AND_VERSION).then_some((domain.name, domain.version))
}

fn malformed(what: &'static str) -> RpcFault {
    RpcFault::Malformed { method: METHOD, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_lens_is_there_and_small_enough() {
        const INITCODE_BYTES_MAX: usize = 49_152; // EIP-3860
        assert!(!CREATION_CODE.is_empty());
        assert!(CREATION_CODE.len() < INITCODE_BYTES_MAX / 2);
    }
}
