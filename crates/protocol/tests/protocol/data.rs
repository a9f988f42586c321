//! Every row of `testdata/rules` that a model of the chain can express, in process.

use crate::support::{
    NOW, address,
    cases::{self, Case, Scene},
    chain::Chain,
    served,
    terms::Terms,
};
use alloy_primitives::hex;
use quittance_protocol::{
    code::Code,
    rules::{VerifiedPayment, check},
    units::UnixSeconds,
    wire::{Refusal, Version, parse},
};
use serde_json::Value;
use std::collections::HashSet;

fn body(terms: &Terms, edits: &[Value]) -> Value {
    let mut body = terms.body();
    cases::edit(&mut body, edits);
    body
}

fn judge(scene: &Scene, terms: &Terms, chain: &Chain) -> Result<VerifiedPayment, Refusal> {
    let request = parse(&body(terms, &scene.edits), &served())?;
    let facts = chain.facts(&request, &scene.policy);
    check(&request, &facts, &scene.policy, UnixSeconds(NOW))
}

fn executes(outcome: Result<(), &'static str>) -> &'static str {
    if outcome.is_ok() { "executes" } else { "reverts" }
}

/// The verdict, or why it is not the one the row expects.
fn compare(case: &Case, version: Version, verdict: &Result<VerifiedPayment, Refusal>) -> Result<(), String> {
    match (verdict, case.valid) {
        (Ok(_), true) => Ok(()),
        (Ok(_), false) => Err("accepted".into()),
        (Err(refusal), true) => Err(format!("refused: {refusal:?}")),
        (Err(refusal), false) if Some(refusal.code.wire()) == case.strict_code(version) => Ok(()),
        (Err(refusal), false) => Err(format!("expected {:?}, got {refusal:?}", case.strict_code(version))),
    }
}

/// The second presentation of a replay, twice: with the first only reserved, and with the first executed.
fn replay(case: &Case, version: Version, scene: &Scene, first: &Terms) -> Result<(), String> {
    let mut first = first.clone();
    if case.mutations["replay"] == "same-payment-other-version" {
        first.version = if version == Version::V1 { Version::V2 } else { Version::V1 };
    }
    let reserved = judge(scene, &first, &scene.chain).map_err(|r| format!("the first is refused: {r:?}"))?;
    let mut executed = scene.chain.clone();
    executed.send_directly(&first.message, &first.signature_bytes()).map_err(String::from)?;
    let another_token = scene.terms.asset != scene.chain.token;
    let mut chains = [scene.chain.clone(), executed];
    if another_token {
        // Another token keeps its own nonces and balances.
        let token = address("another token");
        chains = [scene.chain.clone(), scene.chain.clone()].map(|chain| Chain { token, ..chain });
    }
    let [pending, executed] = chains;

    // The store's half of rule 5: the pending set is keyed by the replay key.
    let verdict = judge(scene, &scene.terms, &pending).and_then(|second| {
        if second.terms().key == reserved.terms().key {
            return Err(Refusal::new(Code::NonceAlreadyUsed, "pending"));
        }
        Ok(second)
    });
    compare(case, version, &verdict).map_err(|e| format!("reserved: {e}"))?;
    let verdict = judge(scene, &scene.terms, &executed);
    compare(case, version, &verdict).map_err(|e| format!("executed: {e}"))?;
    let mut executed = executed;
    let sent = executes(executed.send_directly(&scene.terms.message, &scene.terms.signature_bytes()));
    if sent == case.onchain { Ok(()) } else { Err(format!("on chain it {sent}")) }
}

fn run(case: &Case, version: Version) -> Result<(), String> {
    let scene = case.scene(version);
    if let Some(first) = &scene.first {
        return replay(case, version, &scene, first);
    }
    let verdict = judge(&scene, &scene.terms, &scene.chain);
    compare(case, version, &verdict)?;

    let signature = scene.terms.signature_bytes();
    if let Err(refusal) = &verdict {
        // What a wallet or a log shows of a refusal is never the capability itself.
        let shown = hex::encode(&signature);
        assert!(shown.len() < 16 || !refusal.message.contains(&shown[..16]), "{refusal:?}");
    }
    if case.onchain != "not-applicable" {
        let sent = executes(scene.chain.clone().send_directly(&scene.terms.message, &signature));
        if sent != case.onchain {
            return Err(format!("on chain it {sent}"));
        }
    }
    if let Some(expected) = &case.onchain_unwrapped {
        let sent = executes(scene.chain.clone().send_unwrapped(&scene.terms.message, &signature));
        if sent != expected {
            return Err(format!("unwrapped on chain it {sent}"));
        }
    }
    Ok(())
}

#[test]
fn every_row_is_judged_as_it_says() {
    let (mut ran, mut failures) = (0, Vec::new());
    for case in cases::all() {
        if !case.in_process() {
            continue;
        }
        for version in &case.versions {
            ran += 1;
            if let Err(error) = run(&case, *version) {
                failures.push(format!("{}:{} {version:?}: {error}", case.file, case.id));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {ran} rows:\n{}", failures.len(), failures.join("\n"));
    assert!(ran > 600, "only {ran} rows ran");
}

#[test]
fn rows_are_well_formed() {
    let mut ids = HashSet::new();
    for case in cases::all() {
        assert!(ids.insert(case.id.clone()), "{} twice", case.id);
        assert_eq!(case.valid, case.codes.is_empty(), "{}: a code exactly when invalid", case.id);
        for version in [Version::V1, Version::V2] {
            if let Some(code) = case.strict_code(version) {
                assert!(code.parse::<Code>().is_ok(), "{}: {code} is not one of ours", case.id);
            }
        }
        for outcome in [Some(&case.onchain), case.onchain_unwrapped.as_ref()].into_iter().flatten() {
            let known = ["executes", "reverts", "not-applicable"];
            assert!(known.contains(&outcome.as_str()), "{}: {outcome}", case.id);
        }
        for need in &case.needs {
            let known = ["exact-clock", "block-time", "policy", "evm"];
            assert!(known.contains(&need.as_str()), "{}: {need}", case.id);
        }
        // Rules 1, 2, 3 and 5 refuse what the token refuses; accepting what it refuses would be service for nothing.
        if case.valid && case.onchain == "reverts" {
            let wrapped = case.mutations.get("signature").is_some_and(Value::is_object);
            assert!(wrapped || case.payer == "undeployed", "{}: accepted and reverts", case.id);
        }
    }
}
