//! The node behind a WebSocket: the same promises over a connection that has to be kept.

use crate::support::{Bench, RECEIPT, SEND, Setup, StoreKind, Told, settle_at};
use quittance_testkit::{
    Anvil, DevChain, dev_address,
    harness::{ConfigBuilder, Fault, NetworkConfig, QuittanceProcess, RpcProxy, Rule, process::Wait},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::json;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    time::Instant,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer},
};

/// One call is allowed five seconds.
const DEADLINE: Duration = Duration::from_secs(5);

fn methods(bench: &Bench) -> Vec<String> {
    bench.proxy.calls().into_iter().map(|call| call.method).collect()
}

async fn start() -> Bench {
    Setup::new(StoreKind::Sqlite).websocket().start().await
}

async fn is_unavailable(bench: &Bench) -> Duration {
    let payment = bench.payment().await;
    #[allow(clippy::disallowed_methods, reason = "how long an answer took")]
    let started = Instant::now();
    let reply = bench.verify(&payment).await;
    assert_eq!((reply.status, reply.json["invalidReason"].as_str()), (503, Some("unexpected_verify_error")));
    assert_eq!(bench.rows(&payment).await, Vec::<serde_json::Value>::new());
    started.elapsed()
}

async fn pays(bench: &Bench) {
    let payment = bench.payment().await;
    bench.verify(&payment).await.valid();
    bench.settle(&payment).await.success_of(&payment);
    assert!(bench.is_used(&payment).await);
}

on_both_stores! {
    async fn pays_over_a_websocket(store) {
        let bench = Setup::new(store).websocket().start().await;
        let payment = bench.payment().await;
        bench.proxy.reset_records();
        bench.verify(&payment).await.valid();
        assert_eq!(methods(&bench), ["eth_call"]);
        let hash = bench.settle(&payment).await.success_of(&payment);
        let methods = methods(&bench);
        assert_eq!(methods[..3], ["eth_call", "eth_call", SEND]);
        assert!(methods[3..].iter().all(|method| method == RECEIPT), "{methods:?}");
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// Receipts of many are asked for together.
    async fn many_at_once(store) {
        let bench = Setup::new(store).websocket().signers(2).block_time(1).start().await;
        let payments = bench.payments(40).await;
        for (reply, payment) in bench.settle_all(&payments).await.iter().zip(&payments) {
            reply.success_of(payment);
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (40, 40));
    }

    /// The node is away for three seconds, with transactions in it.
    async fn away_in_the_middle(store) {
        let bench = Setup::new(store).websocket().block_time(1).start().await;
        let payments = bench.payments(20).await;
        let callers: Vec<_> = payments.iter().map(|payment| bench.insisting(payment)).collect();
        bench.proxy.wait_for(SEND, 8).await.unwrap();
        bench.proxy.down(true);
        tokio::time::sleep(Duration::from_secs(3)).await;
        bench.proxy.down(false);
        for (caller, payment) in callers.into_iter().zip(&payments) {
            let hash = caller.await.unwrap();
            assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (20, 20));
    }
}

/// Nobody is there at the start, and nobody has to start the server again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn away_at_the_start() {
    let mut bench = start().await;
    bench.proxy.down(true);
    bench.server.restart(Wait::Healthy).await.unwrap();
    is_unavailable(&bench).await;
    assert_eq!(bench.client.get("/readyz").await.unwrap().status, 503);
    bench.proxy.down(false);
    pays(&bench).await;
    assert_eq!(bench.client.get("/readyz").await.unwrap().status, 200);
}

/// The connection breaks at each step of a settlement, before and after the node has done its work: the caller notices nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_at_each_step() {
    for method in ["eth_call", SEND, RECEIPT] {
        for fault in [Fault::Drop, Fault::lost_answer(), Fault::HttpStatus(502)] {
            let bench = start().await;
            let payment = bench.payment().await;
            let cut = bench.proxy.add(Rule::on(method).times(1).then(fault));
            let hash = bench.settle(&payment).await.success_of(&payment);
            assert_eq!(bench.proxy.hits(cut), 1, "{method}");
            bench.assert_one_transaction_paid(&payment, hash).await;
        }
    }
}

/// Again and again, for longer than any number of tries would last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connected_again_each_time() {
    let bench = start().await;
    for _ in 0..20 {
        bench.proxy.down(true);
        is_unavailable(&bench).await;
        bench.proxy.down(false);
        pays(&bench).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_answer() {
    let bench = start().await;
    let wrong_id = |id| json!({"jsonrpc": "2.0", "id": id, "result": "0x"}).to_string();
    for (case, body) in [
        ("a page", "<html>SECRETKEYMARKER</html>".to_owned()),
        ("nothing", String::new()),
        ("no result", r#"{"jsonrpc":"2.0","id":0}"#.to_owned()),
        ("a list", "[]".to_owned()),
        ("longer than allowed", " ".repeat(17 * 1024 * 1024)),
    ] {
        let rule = bench.proxy.add(Rule::on("eth_call").then(Fault::Body(body)));
        let took = is_unavailable(&bench).await;
        assert!(took < DEADLINE, "{case}: {took:?}");
        bench.proxy.remove(rule);
        pays(&bench).await;
    }
    // Whose answer this is nobody can know.
    for id in [json!(987_654_321), json!("0"), json!(null)] {
        let rule = bench.proxy.add(Rule::on("eth_call").then(Fault::Body(wrong_id(id))));
        is_unavailable(&bench).await;
        bench.proxy.remove(rule);
        pays(&bench).await;
    }
}

/// A connection that is there, on which nothing comes back, ends at the deadline of the call, and is not used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_one_costs_the_deadline() {
    let bench = start().await;
    let hanging = bench.proxy.add(Rule::any().then(Fault::Hang));
    let took = is_unavailable(&bench).await;
    assert!(took >= DEADLINE && took < 2 * DEADLINE, "{took:?}");
    // What hangs on the old connection keeps hanging.
    bench.proxy.remove(hanging);
    pays(&bench).await;
}

/// Both kinds beside each other, each taking over from the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_an_http_endpoint() {
    let bench = Setup::new(StoreKind::Sqlite).websocket().second_endpoint().start().await;
    let second = bench.second_proxy.as_ref().unwrap();
    pays(&bench).await;
    assert_eq!((second.count("eth_call"), second.count(SEND)), (0, 0), "the first is preferred");
    bench.proxy.down(true);
    pays(&bench).await;
    assert_eq!((second.count("eth_call"), second.count(SEND)), (2, 1));
    bench.proxy.down(false);
    second.down(true);
    pays(&bench).await;
    second.down(false);
    // Nobody knows whether the first took the bytes, so the other one gets them too; they are the same.
    let lost = bench.proxy.add(Rule::on(SEND).then(Fault::lost_answer()));
    second.reset_records();
    pays(&bench).await;
    bench.proxy.remove(lost);
    let sent = second.calls_of(SEND);
    let last = bench.proxy.calls_of(SEND).pop().unwrap();
    assert!(sent.iter().all(|call| call.params == last.params) && !sent.is_empty(), "{sent:?}");
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (4, 4));
}

/// A server that takes the connection and never says a word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_behind_the_port() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/SECRETKEYMARKER", silent.local_addr().unwrap());
    let (_anvil, chain) = chain().await;
    let server = serve(&url, Wait::Healthy, |config| config).await;
    let payment = chain.payment().await.unwrap().sign();
    #[allow(clippy::disallowed_methods, reason = "how long an answer took")]
    let started = Instant::now();
    let reply = settle_at(&server.client().unwrap(), payment.body()).await.unwrap();
    assert_eq!(reply.told(), Told::Unavailable);
    assert!(started.elapsed() < 2 * DEADLINE, "{:?}", started.elapsed());
}

async fn chain() -> (Anvil, DevChain) {
    let anvil = Anvil::builder().spawn().await.unwrap();
    let chain = DevChain::deploy(&anvil).await.unwrap();
    chain.mint(chain.token, dev_address(2), alloy_primitives::U256::from(1_000_000)).await.unwrap();
    (anvil, chain)
}

async fn serve(
    url: &str,
    wait: Wait,
    change: impl FnOnce(ConfigBuilder) -> ConfigBuilder,
) -> QuittanceProcess {
    let network = NetworkConfig::new(84532).rpc_url_from_env("RPC_URL", url).dev_signer(0);
    let config = change(ConfigBuilder::new().unwrap().network(network));
    QuittanceProcess::start_until(env!("CARGO_BIN_EXE_quittance"), config, wait).await.unwrap()
}

/// TLS in front of a node, by an authority that nobody knows yet; it would rather speak HTTP/2. The authority, as PEM.
async fn tls_in_front_of(node: SocketAddr) -> (SocketAddr, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &Issuer::new(authority, authority_key))
        .unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut outside = acceptor.accept(stream).await.ok()?;
                let mut inside = TcpStream::connect(node).await.ok()?;
                copy_bidirectional(&mut outside, &mut inside).await.ok()
            });
        }
    });
    (address, authority_pem)
}

/// `wss` trusts whom `https` trusts: the system's authorities, or those that `SSL_CERT_FILE` names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls() {
    let (anvil, chain) = chain().await;
    let proxy = RpcProxy::start(anvil.url()).await.unwrap();
    let plain: url::Url = proxy.ws_url().parse().unwrap();
    let (front, authority) = tls_in_front_of(plain.socket_addrs(|| None).unwrap()[0]).await;
    let url = format!("wss://localhost:{}{}", front.port(), plain.path());
    let payment = chain.payment().await.unwrap().sign();

    let distrusting = serve(&url, Wait::Healthy, |config| config).await;
    let reply = settle_at(&distrusting.client().unwrap(), payment.body()).await.unwrap();
    assert_eq!((reply.told(), proxy.http_requests()), (Told::Unavailable, 0));

    let file = distrusting.dir().join("authority.pem");
    std::fs::write(&file, authority).unwrap();
    let trusting =
        serve(&url, Wait::Ready, |config| config.env("SSL_CERT_FILE", file.display().to_string())).await;
    let reply = settle_at(&trusting.client().unwrap(), payment.body()).await.unwrap();
    reply.success_of(&payment);
    assert!(
        chain.authorization_state(payment.asset(), payment.payer(), payment.nonce()).await.unwrap(),
        "it was paid"
    );
}
