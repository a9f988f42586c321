//! Hostile factories. Listed, they run without any privilege of the facilitator; not listed, they never run.

use super::cast::{Cast, OWNER};
use crate::support::{BINARY, CHAIN_ID, Endpoint, NETWORK, offline::VERSIONS, online::Online, shape};
use alloy_primitives::{Address, Bytes, U256};
use quittance_testkit::{
    DevChain, SignedPayment, X402Version,
    abi::IWalletFactory,
    dev_address, dev_signer,
    harness::{ConfigBuilder, NetworkConfig, QuittanceProcess, process::Wait},
};

const NOT_ALLOWED: &str = "eip6492_factory_not_allowed";
const FAILED: &str = "smart_wallet_deployment_failed";
const THIEF: usize = 8;

/// A server that trusts every factory there is, beside the one that trusts none of them.
struct Hostile {
    cast: Cast,
    trusting: QuittanceProcess,
    factories: Vec<(&'static str, Address)>,
}

async fn hostile() -> Hostile {
    let cast = Cast::start().await;
    let chain = &cast.bench.chain;
    let word = |address: Address| address.into_word().to_vec();
    let (token, thief) = (word(chain.token), word(dev_address(THIEF)));
    let mut factories = Vec::new();
    for (name, arguments) in [
        ("FactoryBurner", vec![]),
        ("FactoryReenter", token.clone()),
        ("FactoryElsewhere", vec![]),
        ("FactoryNothing", vec![]),
        ("FactoryDrainer", [token, thief].concat()),
    ] {
        factories.push((name, chain.deploy_contract(name, &arguments).await.unwrap()));
    }
    let mut network = NetworkConfig::new(CHAIN_ID).rpc_url(cast.bench.anvil.url()).dev_signer(1);
    for (_, factory) in &factories {
        network = network.wallet_factory(*factory);
    }
    let config = ConfigBuilder::new().unwrap().network(network);
    let trusting = QuittanceProcess::start_until(BINARY, config, Wait::Ready).await.unwrap();
    Hostile { cast, trusting, factories }
}

impl Hostile {
    async fn payment(&self, factory: Address, version: X402Version) -> SignedPayment {
        let chain = &self.cast.bench.chain;
        let (owner, salt) = (dev_signer(OWNER), self.cast.salt());
        let address = IWalletFactory::getAddressCall { owner: owner.address(), salt };
        let wallet = chain.call(factory, &address).await.unwrap();
        chain.mint(chain.token, wallet, U256::from(1_000_000)).await.unwrap();
        let create: Bytes = DevChain::wallet_calldata(owner.address(), salt);
        self.cast.bench.payment(version).await.wallet(wallet, owner).sign().erc6492(factory, &create)
    }

    async fn held(&self, account: Address) -> U256 {
        self.cast.bench.chain.balance_of(self.cast.bench.chain.token, account).await.unwrap()
    }
}

#[tokio::test]
async fn a_factory_nobody_listed_is_never_called() {
    let bench = hostile().await;
    for (name, factory) in &bench.factories {
        for version in VERSIONS {
            let payment = bench.payment(*factory, version).await;
            bench.cast.bench.refused(&payment, NOT_ALLOWED, name).await;
        }
    }
    assert_eq!(bench.cast.bench.proxy.count("eth_sendRawTransaction"), 0);
}

/// The operator was deceived. The money of the facilitator stays where it is all the same.
#[tokio::test]
async fn a_listed_factory_can_refuse_its_payer_and_nothing_else() {
    let bench = hostile().await;
    let client = bench.trusting.client().unwrap();
    let chain = &bench.cast.bench.chain;
    let signer = dev_address(1);
    // Something to steal, and an old mistake of the operator's: an allowance for the drainer would be needed to take it.
    chain.mint(chain.token, signer, U256::from(777)).await.unwrap();
    for (name, factory) in &bench.factories {
        for version in VERSIONS {
            let case = format!("{version:?} {name}");
            let payment = bench.payment(*factory, version).await;
            let thief = bench.held(dev_address(THIEF)).await;
            let answers = (
                Endpoint::Verify.post(&client, payment.body()).await,
                Endpoint::Settle.post(&client, payment.body()).await,
            );
            match *name {
                // They deploy what they promised; whatever else they tried, there was nothing to take.
                "FactoryReenter" | "FactoryDrainer" => {
                    shape::valid(&answers.0, payment.payer(), &case);
                    shape::settled(&answers.1, payment.payer(), payment.network(), "10000", &case);
                    assert!(!chain.code(payment.payer()).await.unwrap().is_empty(), "{case}");
                }
                _ => {
                    let (network, payer) = (payment.network(), Some(payment.payer()));
                    let no = shape::No { status: 200, code: FAILED, network, payer };
                    no.check(Endpoint::Verify, &answers.0, &case);
                    no.check(Endpoint::Settle, &answers.1, &case);
                }
            }
            assert_eq!(bench.held(signer).await, U256::from(777), "{case}");
            assert_eq!(bench.held(dev_address(THIEF)).await, thief, "{case}");
            assert_eq!(bench.held(*factory).await, U256::ZERO, "{case}");
        }
    }
    let rows = client.get(&format!("/settlements?network={NETWORK}")).await.unwrap();
    assert_eq!(rows.json["settlements"].as_array().unwrap().len(), 4, "{}", rows.text);
}

/// The list is compared as addresses, whatever case they were written in.
#[tokio::test]
async fn the_case_of_the_list_does_not_matter() {
    let online = Online::start().await;
    let factory = online.chain.wallet_factory;
    let lower = NetworkConfig::new(CHAIN_ID)
        .rpc_url(online.anvil.url())
        .dev_signer(1)
        .set("v1_name", "base-sepolia".into());
    let text = format!("wallet_factories = [\"{}\"]", factory.to_string().to_lowercase());
    let config = ConfigBuilder::new().unwrap().network(lower);
    let toml = config.toml().replace("wallet_factories = []", &text);
    assert!(toml.contains(&text));
    let config =
        ConfigBuilder::new().unwrap().extra(&toml.split_once("\n\n").unwrap().1.replace("\n\n", "\n"));
    let config = config.env("DEV_SIGNER_1", quittance_testkit::dev_accounts::dev_key(1));
    let server = QuittanceProcess::start(BINARY, config).await.unwrap();
    let cast = Cast::on(online).await;
    let payment = cast.sign(super::cast::Kind::Undeployed, cast.bench.payment(X402Version::V2).await).await;
    let answer = Endpoint::Verify.post(&server.client().unwrap(), payment.body()).await;
    shape::valid(&answer, payment.payer(), "lower case");
}
