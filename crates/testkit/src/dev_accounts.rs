//! The ten accounts every local development chain funds ("test test test … junk"). Public, worthless keys.

use alloy::{
    primitives::{Address, B256, b256},
    signers::local::PrivateKeySigner,
};

/// How many dev accounts there are.
pub const DEV_ACCOUNTS: usize = 10;

/// The account that deploys contracts and mints, so that all others keep their nonces for the tests.
pub const DEPLOYER: usize = 9;

const KEYS: [B256; DEV_ACCOUNTS] = [
    b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    b256!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    b256!("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    b256!("7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    b256!("47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    b256!("8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    b256!("92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    b256!("4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    b256!("dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    b256!("2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
];

/// The private key of dev account `index`, as 0x-prefixed hex: what a signer's environment variable holds.
///
/// # Panics
/// If `index` is not below [`DEV_ACCOUNTS`].
pub fn dev_key(index: usize) -> String {
    KEYS[index].to_string()
}

/// A signer for dev account `index`.
///
/// # Panics
/// If `index` is not below [`DEV_ACCOUNTS`].
pub fn dev_signer(index: usize) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&KEYS[index]).expect("the dev keys are valid scalars")
}

/// The address of dev account `index`.
///
/// # Panics
/// If `index` is not below [`DEV_ACCOUNTS`].
pub fn dev_address(index: usize) -> Address {
    dev_signer(index).address()
}
