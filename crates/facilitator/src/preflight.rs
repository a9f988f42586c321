//! `quittance check`: would this configuration take payments?

use crate::{
    config::{NetworkSettings, PayeeMode, RegistrySettings, Settings},
    lane::trace,
    names::named,
    prices::Prices,
};
use alloy_primitives::{Address, U256, address};
use quittance_evm::{RpcFault, lens, pool::RpcPool, watch};
use quittance_protocol::scheme::exact_eip3009::{MULTICALL3, domain as eip3009_domain};

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) ok: bool,
    pub(crate) subject: String,
    pub(crate) finding: String,
}

fn finding(ok: bool, subject: impl Into<String>, finding: impl Into<String>) -> Finding {
    Finding { ok, subject: subject.into(), finding: finding.into() }
}

/// Everything, in the order of the configuration.
pub(crate) async fn check(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![match quittance_store::open(settings.store_url.expose()).await {
        Ok(store) if store.ping().await.is_ok() => finding(true, "store", "reachable and migrated"),
        Ok(_) => finding(false, "store", "opened, but does not answer"),
        Err(error) => finding(false, "store", error.to_string()),
    }];
    for network in &settings.networks {
        check_network(network, &mut findings).await;
    }
    for registry in &settings.payee.registries {
        findings.push(check_registry(registry, settings.payee.mode).await);
    }
    findings
}

/// ERC-8004's authors have the same address everywhere, which does not mean that their contract is everywhere. While payments are
/// not checked that keeps none from being taken: it is said, and is no fault.
async fn check_registry(registry: &RegistrySettings, mode: PayeeMode) -> Finding {
    let subject = format!("payee registry {}", named(registry.network, registry.id.address()));
    let found = match RpcPool::new(registry.network, &registry.rpc_urls) {
        Ok(pool) => code(&pool, &subject, registry.id.address()).await,
        Err(_) => finding(false, subject, "no HTTP client could be made"),
    };
    match mode {
        PayeeMode::Off if !found.ok => Finding {
            ok: true,
            finding: format!("{}; payee.mode is off: only POST /payee needs it", found.finding),
            ..found
        },
        PayeeMode::Off | PayeeMode::Report | PayeeMode::RefuseMismatch => found,
    }
}

async fn check_network(settings: &NetworkSettings, findings: &mut Vec<Finding>) {
    let name = settings.network.to_string();
    // Each endpoint by itself: a pool would hide a dead one behind a live one.
    for (index, url) in settings.rpc_urls.iter().enumerate() {
        let subject = format!("{name} rpc_urls[{index}]");
        let Ok(pool) = RpcPool::new(settings.network, std::slice::from_ref(url)) else {
            findings.push(finding(false, subject, "no HTTP client could be made"));
            continue;
        };
        findings.push(match watch::chain_id(&pool).await {
            Ok(id) if id == settings.network.chain_id() => match logs(&pool).await {
                Ok(blocks) => {
                    finding(true, subject, format!("chain id {id}, logs of {blocks} blocks at a time"))
                }
                Err(fault) => finding(false, subject, format!("chain id {id}, but {fault}")),
            },
            Ok(id) => finding(
                false,
                subject,
                format!("chain id {id}, configured is {}", settings.network.chain_id()),
            ),
            Err(fault) => finding(false, subject, fault.to_string()),
        });
    }
    let Ok(pool) = RpcPool::new(settings.network, &settings.rpc_urls) else { return };
    findings.push(match lens::probe(&pool).await {
        Ok(block) => finding(true, format!("{name} facts in one call"), format!("block {}", block.number)),
        Err(fault) => finding(false, format!("{name} facts in one call"), fault.to_string()),
    });
    for token in TOKENS.iter().filter(|token| token.chain_id == settings.network.chain_id()) {
        findings.push(token_domain(&pool, token).await);
    }
    for factory in &settings.wallet_factories {
        findings.push(
            code(&pool, &format!("wallet factory {}", named(settings.network, *factory)), *factory).await,
        );
    }
    if !settings.wallet_factories.is_empty() {
        findings.push(
            code(&pool, &format!("Multicall3 {}", named(settings.network, MULTICALL3)), MULTICALL3).await,
        );
    }
    for signer in &settings.signers {
        let subject = format!("signer {}", named(settings.network, signer.address()));
        findings.push(match gas_money(&pool, signer.address()).await {
            Ok((balance, true)) => finding(true, subject, format!("balance {} ETH", ether(balance))),
            Ok((balance, false)) => finding(
                false,
                subject,
                format!("balance {} ETH, too little for a settlement", ether(balance)),
            ),
            Err(fault) => finding(false, subject, fault.to_string()),
        });
    }
}

/// Which transaction of somebody else's used an authorization, only logs can tell: of how many blocks this node gives them.
async fn logs(pool: &RpcPool) -> Result<u64, RpcFault> {
    trace::range_allowed(pool, &watch::head(pool).await?).await
}

/// What a signer has, and whether that pays for a settlement now.
async fn gas_money(pool: &RpcPool, signer: Address) -> Result<(U256, bool), RpcFault> {
    let balance = watch::balance(pool, signer).await?;
    let head = watch::head(pool).await?;
    let cost_max = Prices::read(pool, &head).await?.plain_settlement(head.base_fee.unwrap_or_default());
    Ok((balance, balance >= cost_max && !balance.is_zero()))
}

/// A token that official clients take as default, and its EIP-712 domain (spec/x402.md §1.7).
struct Token {
    chain_id: u64,
    address: Address,
    name: &'static str,
    version: &'static str,
}

const TOKENS: &[Token] = &[
    Token {
        chain_id: 8453,
        address: address!("833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
        name: "USD Coin",
        version: "2",
    },
    Token {
        chain_id: 84532,
        address: address!("036CbD53842c5426634e7929541eC2318f3dCF7e"),
        name: "USDC",
        version: "2",
    },
];

/// Sellers declare this domain; on a local chain the token may not be there, which is no fault.
async fn token_domain(pool: &RpcPool, token: &Token) -> Finding {
    let subject = format!("token {}", named(pool.network(), token.address));
    match watch::code_size(pool, token.address).await {
        Ok(0) => return finding(true, subject, "not on this chain"),
        Ok(_) => {}
        Err(fault) => return finding(false, subject, fault.to_string()),
    }
    let expected = eip3009_domain(token.chain_id, token.address, token.name, token.version).separator();
    match watch::domain_separator(pool, token.address).await {
        Ok(Some(own)) if own == expected => {
            finding(true, subject, format!("EIP-712 domain {:?} version {:?}", token.name, token.version))
        }
        Ok(_) => finding(
            false,
            subject,
            format!("its EIP-712 domain is not {:?} version {:?}", token.name, token.version),
        ),
        Err(fault) => finding(false, subject, fault.to_string()),
    }
}

async fn code(pool: &RpcPool, subject: &str, address: Address) -> Finding {
    match watch::code_size(pool, address).await {
        Ok(0) => finding(false, subject, "no code at this address"),
        Ok(size) => finding(true, subject, format!("{size} bytes of code")),
        Err(fault) => finding(false, subject, fault.to_string()),
    }
}

/// Wei as ether with six decimals, cut, never rounded up.
fn ether(wei: U256) -> String {
    let micro = wei / U256::from(1_000_000_000_000_u64);
    let million = U256::from(1_000_000);
    format!("{}.{:0>6}", micro / million, (micro % million).to_string())
}
