//! registry_behaviour.json: what the registry answered on a chain of its own, in every state an agent goes through. The registry
//! here answers word for word the same, and what is said of a payee follows from it.

use super::theatre::{CHAIN_ID, IRegistry, REGISTRY, Theatre};
use alloy_primitives::{Address, Bytes, U256, address};
use quittance_testkit::dev_address;
use serde_json::{Value, json};

/// The data's owner, wallet and unknown agent.
const OWNER: Address = address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
const WALLET: Address = address!("70997970C51812dc3A010C7d01b50e0d17dc79C8");
const UNKNOWN: U256 = U256::from_limbs([999, 0, 0, 0]);
/// Ids that no other case has.
const AGENT: U256 = U256::from_limbs([1_000_001, 0, 0, 0]);
const WITHOUT_URI: U256 = U256::from_limbs([1_000_002, 0, 0, 0]);
/// Where nobody else's cases have been.
const RESOURCE: &str = "https://registry.example/report";

pub(super) async fn play(theatre: &Theatre, data: &Value) {
    let file = json!({ "services": [{ "name": "x402", "endpoint": RESOURCE }] });
    theatre.register_next(AGENT).await;
    let agent_uri = format!("data:application/json,{file}");
    theatre.send_as(OWNER, IRegistry::registerCall { agentURI: agent_uri }).await;
    answers_wallet(theatre, AGENT, &data["walletAfterRegister"]["raw"]).await;
    is(theatre, AGENT, OWNER, "verified-wallet").await;

    set_wallet(theatre).await;
    answers_wallet(theatre, AGENT, &data["walletAfterSet"]).await;
    is(theatre, AGENT, WALLET, "verified-wallet").await;
    is(theatre, AGENT, OWNER, "mismatch").await;

    let designator: Bytes = serde_json::from_value(data["code7702"].clone()).unwrap();
    theatre.set_code(WALLET, &designator).await;
    answers_wallet(theatre, AGENT, &data["setWith7702"]).await;
    is(theatre, AGENT, WALLET, "verified-wallet").await;
    assert_eq!(ask(theatre, "eip155:1", AGENT, WALLET).await["outcome"], "mismatch", "a designator is code");

    theatre.send_as(OWNER, IRegistry::unsetAgentWalletCall { agentId: AGENT }).await;
    has_no_wallet(theatre, &data["walletAfterUnset"], OWNER).await;
    let somebody = dev_address(5);
    for (to, answer) in [(OWNER, "walletAfterSelfTransfer"), (somebody, "walletAfterTransfer")] {
        set_wallet(theatre).await;
        is(theatre, AGENT, WALLET, "verified-wallet").await;
        theatre.send_as(OWNER, IRegistry::transferFromCall { from: OWNER, to, tokenId: AGENT }).await;
        assert_eq!(theatre.newest_topics().await, data["transferLogs"], "{answer}");
        has_no_wallet(theatre, &data[answer], to).await;
    }
    is(theatre, AGENT, OWNER, "no-agent-wallet").await;

    answers_wallet(theatre, UNKNOWN, &data["nonexistent"]["getAgentWallet"]).await;
    is(theatre, UNKNOWN, OWNER, "not-read registry").await;
    theatre.register_next(WITHOUT_URI).await;
    theatre.send_as(OWNER, IRegistry::registerCall { agentURI: String::new() }).await;
    let uri = theatre.raw(IRegistry::tokenURICall { agentId: WITHOUT_URI }).await;
    assert_eq!(uri, data["uriEmpty"]);
    is(theatre, WITHOUT_URI, OWNER, "not-read file").await;
}

/// With the consent of code that is there for the moment.
async fn set_wallet(theatre: &Theatre) {
    let deadline = theatre.soon().await;
    theatre.consent(WALLET).await;
    let signature = Bytes::new();
    let call = IRegistry::setAgentWalletCall { agentId: AGENT, newWallet: WALLET, deadline, signature };
    theatre.send_as(OWNER, call).await;
    theatre.set_code(WALLET, &Bytes::new()).await;
}

async fn has_no_wallet(theatre: &Theatre, answer: &Value, owner: Address) {
    answers_wallet(theatre, AGENT, answer).await;
    is(theatre, AGENT, owner, "owner-only").await;
    is(theatre, AGENT, WALLET, "no-agent-wallet").await;
}

async fn answers_wallet(theatre: &Theatre, agent_id: U256, answer: &Value) {
    assert_eq!(theatre.raw(IRegistry::getAgentWalletCall { agentId: agent_id }).await, *answer);
}

async fn is(theatre: &Theatre, agent_id: U256, pay_to: Address, said: &str) {
    let answer = ask(theatre, &format!("eip155:{CHAIN_ID}"), agent_id, pay_to).await;
    let words = [&answer["outcome"], &answer["failedRead"]].map(|word| word.as_str().unwrap_or_default());
    assert_eq!(words.join(" ").trim_end(), said, "{agent_id}, {pay_to}: {answer}");
}

async fn ask(theatre: &Theatre, network: &str, agent_id: U256, pay_to: Address) -> Value {
    let registry = format!("eip155:{CHAIN_ID}:{REGISTRY}");
    let requirement = json!({
        "scheme": "exact",
        "network": network,
        "asset": Address::repeat_byte(0xaa),
        "amount": "1",
        "payTo": pay_to,
        "extra": { "erc8004": { "registry": registry, "agentId": agent_id.to_string(), "delegation": null } },
    });
    theatre.ask(&json!({ "paymentRequirements": requirement, "resource": RESOURCE })).await
}
