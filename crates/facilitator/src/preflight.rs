//! `quittance check`: would this configuration take payments?

use crate::config::{NetworkSettings, Settings};
use alloy_primitives::U256;
use quittance_evm::{pool::RpcPool, watch};
use quittance_protocol::scheme::exact_eip3009::MULTICALL3;

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
    findings
}

async fn check_network(settings: &NetworkSettings, findings: &mut Vec<Finding>) {
    let name = settings.network.to_string();
    // Each endpoint by itself: a pool would hide a dead one behind a live one.
    for (index, url) in settings.rpc_urls.iter().enumerate() {
        let subject = format!("{name} rpc_urls[{index}]");
        let chain = match RpcPool::new(settings.network, std::slice::from_ref(url)) {
            Ok(pool) => watch::chain_id(&pool).await.map_err(|fault| fault.to_string()),
            Err(_) => Err("no HTTP client could be made".to_owned()),
        };
        findings.push(match chain {
            Ok(id) if id == settings.network.chain_id() => finding(true, subject, format!("chain id {id}")),
            Ok(id) => finding(
                false,
                subject,
                format!("chain id {id}, configured is {}", settings.network.chain_id()),
            ),
            Err(reason) => finding(false, subject, reason),
        });
    }
    let Ok(pool) = RpcPool::new(settings.network, &settings.rpc_urls) else { return };
    for factory in &settings.wallet_factories {
        findings.push(code(&pool, &format!("{name} wallet factory {factory}"), *factory).await);
    }
    if !settings.wallet_factories.is_empty() {
        findings.push(code(&pool, &format!("{name} Multicall3"), MULTICALL3).await);
    }
    for signer in &settings.signers {
        let subject = format!("{name} signer {}", signer.address());
        findings.push(match watch::balance(&pool, signer.address()).await {
            Ok(balance) => finding(!balance.is_zero(), subject, format!("balance {} ETH", ether(balance))),
            Err(fault) => finding(false, subject, fault.to_string()),
        });
    }
}

async fn code(pool: &RpcPool, subject: &str, address: alloy_primitives::Address) -> Finding {
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
