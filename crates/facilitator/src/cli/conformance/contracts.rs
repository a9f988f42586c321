//! Contracts at addresses that are known before the chain exists, so that an operator can allow the factories first.

use super::{case::Token, node::Node, word::Factory};
use alloy_primitives::{Address, B256, Bytes, U256, address, keccak256};
use alloy_sol_types::SolValue as _;
use anyhow::{Context as _, ensure};
use quittance_protocol::scheme::exact_eip3009::MULTICALL3;
use quittance_testkit::contracts::artifact;

/// The deterministic deployment proxy. Anvil has it from the start.
const DEPLOYER: Address = address!("4e59b44847b379578588920cA78FbF26c0B4956C");
const DEPLOYER_CODE: Bytes = Bytes::from_static(&alloy_primitives::hex!(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3"
));
/// Takes what the draining factory takes.
const BENEFICIARY: Address = address!("000000000000000000000000000000000000d7a1");

/// A contract, and where it will be.
#[derive(Debug)]
pub(super) struct Contract {
    pub(super) address: Address,
    data: Bytes,
}

impl Contract {
    fn new(name: &str, arguments: &[u8], salt: B256) -> anyhow::Result<Self> {
        let code = [&artifact(name)?.bytecode, arguments].concat();
        let address = DEPLOYER.create2_from_code(salt, &code);
        Ok(Self { address, data: [salt.as_slice(), &code].concat().into() })
    }

    /// One of the tokens: "USDC", version "2".
    pub(super) fn token(token: Token, salt: B256) -> anyhow::Result<Self> {
        Self::new(token.contract(), &("USDC", "USDC", "2", U256::from(6)).abi_encode_params(), salt)
    }

    /// A wallet whose signatures are its owner's.
    pub(super) fn wallet1271(owner: Address, salt: B256) -> anyhow::Result<Self> {
        Self::new("Wallet1271", &owner.abi_encode(), salt)
    }

    /// A contract without constructor arguments.
    pub(super) fn plain(name: &str, salt: B256) -> anyhow::Result<Self> {
        Self::new(name, &[], salt)
    }

    fn factory(factory: Factory, salt: B256) -> anyhow::Result<Self> {
        let token = Self::token(Token::FiatToken, first_instance())?.address;
        let arguments = match factory {
            Factory::FactoryReenter => token.abi_encode(),
            Factory::FactoryDrainer => (token, BENEFICIARY).abi_encode_params(),
            _ => Vec::new(),
        };
        Self::new(factory.contract(), &arguments, salt)
    }

    /// Puts it on the chain if it is not there from an earlier run.
    pub(super) async fn deploy(&self, node: &Node, time: u64) -> anyhow::Result<Address> {
        if !node.has_code(self.address).await? {
            node.deploy(DEPLOYER, self.data.clone(), time).await?;
            ensure!(node.has_code(self.address).await?, "nothing was deployed at {}", self.address);
        }
        Ok(self.address)
    }
}

/// Salt of what the tables have one of, and of the listed factories.
fn first_instance() -> B256 {
    keccak256("quittance conformance")
}

/// Salt of the factories that are on nobody's list.
fn second_instance() -> B256 {
    keccak256("quittance conformance, unlisted")
}

/// Where the factories are.
#[derive(Clone, Debug)]
pub(super) struct Factories(Vec<(Factory, Address, Address)>);

impl Factories {
    pub(super) fn known() -> anyhow::Result<Self> {
        let factories = Factory::ALL.into_iter().map(|factory| {
            let listed = Contract::factory(factory, first_instance())?.address;
            let unlisted = Contract::factory(factory, second_instance())?.address;
            Ok((factory, listed, unlisted))
        });
        Ok(Self(factories.collect::<anyhow::Result<_>>()?))
    }

    /// The instances an operator has to allow, with the names of their contracts.
    pub(super) fn allow_list(&self) -> impl Iterator<Item = (&'static str, Address)> {
        self.0.iter().map(|(factory, listed, _)| (factory.contract(), *listed))
    }

    pub(super) fn listed(&self, factory: Factory) -> anyhow::Result<Address> {
        self.find(factory).map(|(_, listed, _)| *listed)
    }

    pub(super) fn unlisted(&self, factory: Factory) -> anyhow::Result<Address> {
        self.find(factory).map(|(_, _, unlisted)| *unlisted)
    }

    fn find(&self, factory: Factory) -> anyhow::Result<&(Factory, Address, Address)> {
        self.0.iter().find(|(known, ..)| *known == factory).context("no such factory")
    }
}

/// Where what every case shares is.
#[derive(Debug)]
pub(super) struct Contracts {
    pub(super) factories: Factories,
    pub(super) delegate: Address,
    pub(super) rejecting_delegate: Address,
}

impl Contracts {
    /// Puts everything shared on the chain.
    pub(super) async fn deploy(node: &Node, time: u64) -> anyhow::Result<Self> {
        node.set_code(MULTICALL3, &artifact("Multicall3")?.deployed_bytecode).await?;
        if !node.has_code(DEPLOYER).await? {
            node.set_code(DEPLOYER, &DEPLOYER_CODE).await?;
        }
        for token in Token::ALL {
            Contract::token(token, first_instance())?.deploy(node, time).await?;
        }
        for salt in [first_instance(), second_instance()] {
            for factory in Factory::ALL {
                Contract::factory(factory, salt)?.deploy(node, time).await?;
            }
        }
        Ok(Self {
            factories: Factories::known()?,
            delegate: Contract::plain("Delegate7702", first_instance())?.deploy(node, time).await?,
            rejecting_delegate: Contract::plain("Wallet1271Rejecting", first_instance())?
                .deploy(node, time)
                .await?,
        })
    }

    /// The tables' one instance of a token.
    pub(super) fn token(token: Token) -> anyhow::Result<Address> {
        Ok(Contract::token(token, first_instance())?.address)
    }
}
