//! `quittance check`: a table of what would keep the server from taking payments, and exit 0 or 1.

use crate::support::{cli::Cli, online::Online};
use alloy_primitives::{Address, U256, address};
use quittance_protocol::interop::InteropAddress;
use quittance_testkit::{
    Anvil,
    dev_accounts::dev_key,
    dev_address,
    harness::{Fault, Rule, free_port, proxy::Call},
    jsonrpc::quantity,
};

const MULTICALL3: Address = address!("cA11bde05977b3631167028862bE2a173976CA11");

struct Table {
    cli: Cli,
    rpc: Vec<String>,
    factories: Vec<Address>,
    id: u64,
    top: String,
}

impl Table {
    fn new(rpc: impl Into<String>) -> Self {
        let cli = Cli::new().env("SIGNER_5", dev_key(5)).env("SIGNER_6", dev_key(6));
        Self { cli, rpc: vec![rpc.into()], factories: Vec::new(), id: 84532, top: String::new() }
    }

    /// Runs it; exit code, and the lines with their marks.
    async fn run(self) -> (Option<i32>, Vec<String>) {
        let toml = format!(
            "{}\n[[networks]]\nid = \"eip155:{}\"\nrpc_urls = {:?}\nsigners = [\"env:SIGNER_5\", \"env:SIGNER_6\"]\nwallet_factories = {:?}\n",
            self.top,
            self.id,
            self.rpc,
            self.factories.iter().map(Address::to_string).collect::<Vec<_>>()
        );
        let ended = self.cli.file("quittance.toml", toml).run(&["check"]).await;
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        (ended.code, ended.stdout.lines().map(str::to_owned).collect())
    }
}

fn line<'a>(lines: &'a [String], words: &[&str]) -> &'a str {
    let mut fitting = lines.iter().filter(|line| words.iter().all(|word| line.contains(word)));
    let found = fitting.next().unwrap_or_else(|| panic!("no line with {words:?} in {lines:#?}"));
    assert!(fitting.next().is_none(), "two lines with {words:?} in {lines:#?}");
    found
}

/// An address as a person reads it.
fn named(address: Address) -> String {
    let name = InteropAddress::evm(U256::from(84532), address).unwrap().to_string();
    assert!(name.starts_with(&format!("{address}@eip155:84532#")), "{name}");
    name
}

fn failed(lines: &[String]) -> Vec<&String> {
    lines.iter().filter(|line| line.starts_with("FAIL")).collect()
}

/// A node that gives logs of so many blocks at a time and no more.
fn at_most(blocks: u64) -> Rule {
    let is_more = move |call: &Call| {
        let block = |name: &str| quantity(&call.params[0][name]).unwrap();
        block("toBlock") - block("fromBlock") >= blocks
    };
    Rule::on("eth_getLogs").when(is_more).then(Fault::error(-32600, "up to a 10 block range"))
}

#[tokio::test]
async fn all_is_well() {
    let bench = Online::start().await;
    let mut table = Table::new(bench.proxy.url());
    table.factories.push(bench.chain.wallet_factory);
    let (code, lines) = table.run().await;
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(lines.iter().all(|line| line.starts_with("ok")), "{lines:#?}");
    line(&lines, &["store"]);
    line(&lines, &["rpc_urls[0]", "84532", "logs of 2000 blocks"]);
    // Whoever copies an address from here copies its chain, and a checksum over both.
    line(&lines, &[&format!("factory {} ", named(bench.chain.wallet_factory))]);
    line(&lines, &[&format!("Multicall3 {} ", named(MULTICALL3))]);
    for index in [5, 6] {
        line(&lines, &[&format!("signer {} ", named(dev_address(index))), "10000"]);
    }
    // Looking sends nothing.
    assert_eq!(bench.proxy.count("eth_sendRawTransaction"), 0);
}

/// Nodes behind WebSockets, that of a payee registry too.
#[tokio::test]
async fn over_websockets() {
    let bench = Online::start().await;
    let mut table = Table::new(bench.proxy.ws_url());
    table.factories.push(bench.chain.wallet_factory);
    // Any contract will do: what is checked is that one is there.
    table.top = format!(
        "payee.mode = \"report\"\npayee.registries = [{{ id = \"eip155:84532:{}\", rpc_urls = [{:?}] }}]",
        bench.chain.token,
        bench.proxy.ws_url()
    );
    let (code, lines) = table.run().await;
    assert_eq!((code, failed(&lines).len()), (Some(0), 0), "{lines:#?}");
    line(&lines, &["rpc_urls[0]", "84532"]);
    line(&lines, &[&format!("payee registry {} ", named(bench.chain.token)), "bytes of code"]);

    bench.proxy.down(true);
    let (code, lines) = Table::new(bench.proxy.ws_url()).run().await;
    assert_eq!(code, Some(1), "{lines:#?}");
    assert!(line(&lines, &["rpc_urls[0]"]).starts_with("FAIL"));
}

/// `POST /payee` answers in every mode, so there is a line in every mode. While no payment is checked, a registry that cannot be
/// read keeps none from being taken.
#[tokio::test]
async fn a_registry_is_looked_at_in_every_mode_and_missed_when_payments_are_checked() {
    let bench = Online::start().await;
    let (there, nothing, unreachable) = (bench.chain.token, Address::repeat_byte(7), Address::repeat_byte(8));
    let registry = |address: Address, url: &str| {
        format!("{{ id = \"eip155:84532:{address}\", rpc_urls = [\"{url}\"] }}")
    };
    let registries = [
        registry(there, &bench.proxy.url()),
        registry(nothing, &bench.proxy.url()),
        registry(unreachable, "http://127.0.0.1:1/SECRETKEYMARKER"),
    ]
    .join(", ");
    for (mode, missed) in [("off", "ok"), ("report", "FAIL"), ("refuse-mismatch", "FAIL")] {
        let mut table = Table::new(bench.proxy.url());
        table.top = format!("payee.mode = \"{mode}\"\npayee.registries = [{registries}]");
        let (code, lines) = table.run().await;
        let is_off = mode == "off";
        assert_eq!(
            (code, failed(&lines).len()),
            if is_off { (Some(0), 0) } else { (Some(1), 2) },
            "{lines:#?}"
        );
        let found = line(&lines, &[&format!("payee registry {} ", named(there)), "bytes of code"]);
        assert!(found.starts_with("ok") && !found.contains("POST /payee"), "{found}");
        for (address, why) in [(nothing, "no code at this address"), (unreachable, "")] {
            let found = line(&lines, &[&format!("payee registry {} ", named(address)), why]);
            assert!(found.starts_with(missed), "{mode}: {found}");
            assert_eq!(
                found.contains("payee.mode is off: only POST /payee needs it"),
                is_off,
                "{mode}: {found}"
            );
        }
    }
}

#[tokio::test]
async fn each_fault_has_its_line() {
    let bench = Online::start().await;
    let empty = dev_address(6);
    bench.anvil.set_balance(empty, U256::ZERO).await.unwrap();
    let (code, lines) = Table::new(bench.proxy.url()).run().await;
    assert_eq!((code, failed(&lines).len()), (Some(1), 1), "{lines:#?}");
    assert!(line(&lines, &["signer", &empty.to_string()]).starts_with("FAIL"));
    bench.anvil.set_balance(empty, U256::from(1)).await.unwrap();
    let (code, lines) = Table::new(bench.proxy.url()).run().await;
    assert_eq!((code, failed(&lines).len()), (Some(1), 1), "{lines:#?}");
    assert!(line(&lines, &[&empty.to_string(), "too little"]).starts_with("FAIL"));
    bench.anvil.set_balance(empty, U256::from(10).pow(U256::from(18))).await.unwrap();

    let mut table = Table::new(bench.proxy.url());
    table.factories.extend([bench.chain.wallet_factory, Address::repeat_byte(7)]);
    let (code, lines) = table.run().await;
    assert_eq!((code, failed(&lines).len()), (Some(1), 1), "{lines:#?}");
    assert!(line(&lines, &[&Address::repeat_byte(7).to_string()]).starts_with("FAIL"));

    // A dead endpoint behind a live one is found too.
    let mut table = Table::new(bench.proxy.url());
    table.rpc.push(format!("http://127.0.0.1:{}/SECRETKEYMARKER", free_port().unwrap()));
    let (code, lines) = table.run().await;
    assert_eq!((code, failed(&lines).len()), (Some(1), 1), "{lines:#?}");
    assert!(line(&lines, &["rpc_urls[1]"]).starts_with("FAIL"));
    assert!(line(&lines, &["rpc_urls[0]"]).starts_with("ok"));

    // What others settled is found in logs: in however many blocks at a time, but not without.
    bench.anvil.mine(20).await.unwrap();
    let mut logs = bench.proxy.add(at_most(10));
    let (code, lines) = Table::new(bench.proxy.url()).run().await;
    assert_eq!((code, failed(&lines).len()), (Some(0), 0), "{lines:#?}");
    line(&lines, &["rpc_urls[0]", "84532", "logs of 10 blocks"]);
    for fault in [Fault::error(-32601, "method not found"), Fault::HttpStatus(403)] {
        bench.proxy.remove(logs);
        logs = bench.proxy.add(Rule::on("eth_getLogs").then(fault));
        let (code, lines) = Table::new(bench.proxy.url()).run().await;
        assert_eq!((code, failed(&lines).len()), (Some(1), 1), "{lines:#?}");
        assert!(line(&lines, &["rpc_urls[0]", "84532", "eth_getLogs"]).starts_with("FAIL"));
    }
    bench.proxy.remove(logs);

    let other = Anvil::builder().chain_id(10).spawn().await.unwrap();
    let mut table = Table::new(bench.proxy.url());
    table.rpc.push(other.url());
    let (code, lines) = table.run().await;
    assert_eq!((code, failed(&lines).len()), (Some(1), 1), "{lines:#?}");
    let wrong = line(&lines, &["rpc_urls[1]"]);
    assert!(wrong.starts_with("FAIL") && wrong.contains("10") && wrong.contains("84532"), "{wrong}");

    let mut table = Table::new(bench.proxy.url());
    table.top = "store.url = \"postgres://quittance:SECRETKEYMARKER@127.0.0.1:1/quittance\"".to_owned();
    let (code, lines) = table.run().await;
    assert_eq!((code, failed(&lines).len()), (Some(1), 1), "{lines:#?}");
    assert!(line(&lines, &["store"]).starts_with("FAIL"));
}

#[tokio::test]
async fn with_nothing_there_every_line_says_so() {
    let (code, lines) = Table::new("http://127.0.0.1:1/SECRETKEYMARKER").run().await;
    assert_eq!(code, Some(1), "{lines:#?}");
    assert!(line(&lines, &["store"]).starts_with("ok"));
    for index in [5, 6] {
        assert!(line(&lines, &["signer", &dev_address(index).to_string()]).starts_with("FAIL"));
    }
    assert!(line(&lines, &["rpc_urls[0]"]).starts_with("FAIL"));
    // Nothing that is on depends on a payee registry.
    let registry = line(&lines, &["payee registry", "payee.mode is off"]);
    assert!(registry.starts_with("ok"), "{registry}");
    assert_eq!(failed(&lines).len(), lines.len() - 2, "{lines:#?}");
}

/// Beside a running server. The embedded store is one process's; everything else can be looked at.
#[tokio::test]
async fn a_running_server_can_be_checked() {
    let bench = Online::start().await;
    let toml = std::fs::read_to_string(bench.server.dir().join("quittance.toml")).unwrap();
    let store = format!("sqlite://{}", bench.server.dir().join("quittance.db").display());
    let toml = toml.replace("sqlite://quittance.db", &store);
    let ended = Cli::with_file(&toml).env("DEV_SIGNER_0", dev_key(0)).run(&["check"]).await;
    let lines: Vec<String> = ended.stdout.lines().map(str::to_owned).collect();
    assert_eq!((ended.code, failed(&lines).len()), (Some(1), 1), "{lines:#?}");
    assert!(line(&lines, &["store", "another process"]).starts_with("FAIL"));
    let payment = bench.payment(quittance_testkit::X402Version::V2).await.sign();
    bench.accepted(&payment, "after it was checked").await;
}
