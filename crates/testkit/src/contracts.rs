//! Compiled contracts, embedded at build time from `contracts/artifacts`.

use alloy::primitives::Bytes;
use anyhow::{Context as _, Result, anyhow};
use serde_json::Value;

static ARTIFACTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/artifacts.rs"));

/// One compiled contract.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Contract name.
    pub name: &'static str,
    /// Solidity's JSON ABI.
    pub abi: Value,
    /// Creation code, without constructor arguments.
    pub bytecode: Bytes,
    /// Runtime code; immutables are zero in it.
    pub deployed_bytecode: Bytes,
}

/// The artifact called `name`.
pub fn artifact(name: &str) -> Result<Artifact> {
    let (name, text) = ARTIFACTS
        .iter()
        .find(|(known, _)| *known == name)
        .ok_or_else(|| anyhow!("no contract {name} among {:?}; rebuild contracts/artifacts", names()))?;
    let mut json: Value = serde_json::from_str(text).with_context(|| format!("artifact {name}"))?;
    let code = |json: &Value, key: &str| -> Result<Bytes> {
        let text = json[key].as_str().ok_or_else(|| anyhow!("artifact {name}: {key} is not a string"))?;
        text.parse().with_context(|| format!("artifact {name}: {key}"))
    };
    Ok(Artifact {
        name,
        bytecode: code(&json, "bytecode")?,
        deployed_bytecode: code(&json, "deployedBytecode")?,
        abi: json["abi"].take(),
    })
}

/// All contract names, sorted.
pub fn names() -> Vec<&'static str> {
    ARTIFACTS.iter().map(|(name, _)| *name).collect()
}
