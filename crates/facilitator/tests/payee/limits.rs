//! The numbers of spec/payee.md §2.6 and §2.7, to ten milliseconds, on a clock that stands still until the test moves it.

use crate::{
    agents::file_of,
    files::{Files, Page},
    stage::{Agent, RESOURCE, Stage, said},
    world::World,
};
use futures::future;
use quittance_testkit::harness::{Fault, Rule};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
};

const TOO_LATE: &str = "the host did not answer in time";
/// How many strangers' hosts there are.
const HOSTS: usize = 40;

/// A server, and its time.
struct Clocked {
    stage: Stage,
    world: World,
    ms: u64,
}

impl Clocked {
    /// Milliseconds later.
    fn later(&mut self, ms: u64) {
        self.ms += ms;
        self.world.stop(self.ms);
    }

    /// Begins a check that is verified if it gets the file. Its connection has not been idle for minutes.
    fn begin(&self, agent: &Agent) -> JoinHandle<Value> {
        let requirement = agent.requirement(agent.wallet, Value::Null);
        let body = json!({ "paymentRequirements": requirement, "resource": RESOURCE });
        let client = self.stage.server.client().unwrap();
        tokio::spawn(async move {
            let answer = client.post("/payee", &body, &[]).await.unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text);
            answer.json
        })
    }

    async fn check(&self, agent: &Agent) -> Value {
        self.begin(agent).await.unwrap()
    }

    /// Where one of the strangers' hosts has a page.
    async fn agent(&self, host: usize, path: &str) -> Agent {
        self.stage.agent_with(&format!("http://host-{host}.example{path}")).await
    }

    /// Waits for an answer whose time has come.
    async fn ends(&self, check: JoinHandle<Value>) -> Value {
        self.stage.nudged(check).await.unwrap()
    }
}

fn is_verified(answer: &Value) {
    assert_eq!(said(answer), ("verified-wallet", ""), "{answer}");
}

fn is_unread(answer: &Value, read: &str, reason: &str) {
    assert_eq!(said(answer), ("not-read", read), "{answer}");
    assert_eq!(answer["reason"], reason, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_limit_is_what_it_is_said_to_be() {
    let (one, other) = (BlackHole::new().await, BlackHole::new().await);
    let files = Files::start().await;
    let world = (0..HOSTS).fold(World::new(), |world, host| {
        let address = format!("93.184.216.{}", host + 1);
        let world = world.host(&format!("host-{host}.example"), &address);
        world.route(&format!("{address}:80"), files.address.port())
    });
    let mut stage = Stage::start_with("report", |config| {
        world.around(config.set("payee.registry_allow_private_hosts", json!(true)))
    })
    .await;
    stage.files = files;
    let mut clocked = Clocked { stage, world, ms: 0 };
    clocked.later(0);

    what_is_kept(&mut clocked).await;
    a_connection_takes_two_seconds(&mut clocked, one, other).await;
    a_fetch_takes_five_seconds(&mut clocked).await;
    a_check_takes_eight_seconds(&mut clocked).await;
    files_are_fetched_once_and_32_at_a_time(&clocked).await;
    clocked.world.no_proxy_was_used();
}

/// A file for a minute, a failure for five seconds.
async fn what_is_kept(clocked: &mut Clocked) {
    let files = clocked.stage.files.clone();
    files.put("/kept", Page::Json(file_of(&[RESOURCE])));
    let (file, failure) = (clocked.agent(0, "/kept").await, clocked.agent(0, "/missing").await);
    let mut hits = Vec::new();
    for ms in [0, 4_990, 20, 54_980, 20] {
        clocked.later(ms);
        is_verified(&clocked.check(&file).await);
        is_unread(&clocked.check(&failure).await, "file", "the host answered with status 404, not 200");
        hits.push((files.hits("/kept"), files.hits("/missing")));
    }
    assert_eq!(hits, [(1, 1), (1, 1), (1, 2), (1, 3), (2, 3)]);
}

async fn a_connection_takes_two_seconds(clocked: &mut Clocked, one: BlackHole, other: BlackHole) {
    let agent = clocked.stage.agent_with(&one.url()).await;
    let check = clocked.begin(&agent);
    one.is_tried(&clocked.stage).await;
    clocked.later(1_990);
    clocked.stage.nudge().await;
    clocked.stage.nudged(one.opens()).await;
    is_verified(&clocked.ends(check).await);

    let agent = clocked.stage.agent_with(&other.url()).await;
    let check = clocked.begin(&agent);
    other.is_tried(&clocked.stage).await;
    clocked.later(2_010);
    is_unread(&clocked.ends(check).await, "file", TOO_LATE);
}

async fn a_fetch_takes_five_seconds(clocked: &mut Clocked) {
    let files = clocked.stage.files.clone();
    for (path, ms) in [("/patience", 4_990), ("/no-patience", 5_010)] {
        files.put(path, Page::Held(file_of(&[RESOURCE])));
        let agent = clocked.agent(0, path).await;
        let check = clocked.begin(&agent);
        files.wait_for(path, 1).await;
        clocked.later(ms);
        if ms < 5_000 {
            clocked.stage.nudge().await;
            files.release();
            is_verified(&clocked.ends(check).await);
        } else {
            is_unread(&clocked.ends(check).await, "file", TOO_LATE);
        }
    }
}

/// However little each part takes for itself. A call of the registry may take five seconds, and so may a file.
async fn a_check_takes_eight_seconds(clocked: &mut Clocked) {
    let files = clocked.stage.files.clone();
    for (path, ms) in [("/in-time", 3_490), ("/too-late", 3_510), ("/nothing", 3_510)] {
        files.put(path, Page::Held(file_of(&[RESOURCE])));
        let agent = clocked.agent(0, path).await;
        let registry = &clocked.stage.registry;
        registry.reset_records();
        let rule = registry.add(Rule::on("eth_getBlockByNumber").then(Fault::Hang));
        let check = clocked.begin(&agent);
        registry.wait_for("eth_getBlockByNumber", 1).await.unwrap();
        registry.remove(rule);
        let is_silent = path == "/nothing";
        let rule = is_silent.then(|| registry.add(Rule::on("eth_call").then(Fault::Hang)));
        clocked.later(4_500);
        clocked.stage.nudge().await;
        let registry = &clocked.stage.registry;
        registry.release();
        if is_silent {
            registry.wait_for("eth_call", 1).await.unwrap();
        } else {
            files.wait_for(path, 1).await;
        }
        clocked.later(ms);
        match path {
            "/in-time" => {
                clocked.stage.nudge().await;
                files.release();
                is_verified(&clocked.ends(check).await);
            }
            "/too-late" => is_unread(&clocked.ends(check).await, "file", TOO_LATE),
            _ => {
                let reason = "the registry's chain was not read in time";
                is_unread(&clocked.ends(check).await, "registry", reason);
            }
        }
        if let Some(rule) = rule {
            clocked.stage.registry.remove(rule);
            clocked.stage.registry.release();
        }
    }
}

async fn files_are_fetched_once_and_32_at_a_time(clocked: &Clocked) {
    let files = &clocked.stage.files;
    files.put("/shared", Page::Held(file_of(&[RESOURCE])));
    files.put("/many", Page::Held(file_of(&[RESOURCE])));
    let (mut shared, mut many) = (Vec::new(), Vec::new());
    for host in 0..HOSTS {
        many.push(clocked.agent(host, "/many").await);
    }
    for _ in 0..5 {
        shared.push(clocked.agent(0, "/shared").await);
    }

    let checks = begin_all(clocked, &shared).await;
    assert_eq!(files.hits("/shared"), 1);
    files.release();
    future::join_all(checks).await.iter().for_each(|answer| is_verified(answer.as_ref().unwrap()));
    assert_eq!(files.hits("/shared"), 1);

    let checks = begin_all(clocked, &many).await;
    files.wait_for("/many", 32).await;
    for _ in 0..10 {
        clocked.stage.nudge().await;
    }
    assert_eq!(files.hits("/many"), 32, "of which none has its answer");
    files.release();
    files.wait_for("/many", HOSTS).await;
    files.release();
    future::join_all(checks).await.iter().for_each(|answer| is_verified(answer.as_ref().unwrap()));
}

/// Begins checks, and waits until all of them know which file they need.
async fn begin_all(clocked: &Clocked, agents: &[Agent]) -> Vec<JoinHandle<Value>> {
    let registry = &clocked.stage.registry;
    registry.reset_records();
    let checks = agents.iter().map(|agent| clocked.begin(agent)).collect();
    registry.wait_answered("eth_call", u64::try_from(agents.len()).unwrap()).await.unwrap();
    for _ in 0..10 {
        clocked.stage.nudge().await;
    }
    checks
}

/// A port at which connections are neither taken nor refused, as there is no room for them.
struct BlackHole {
    listener: TcpListener,
    port: u16,
    _room: TcpStream,
}

impl BlackHole {
    async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let room = TcpStream::connect(address).await.unwrap();
        Self { listener, port: address.port(), _room: room }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Waits until somebody has asked for a connection and got no answer, by what the system says of its sockets.
    async fn is_tried(&self, stage: &Stage) {
        let asked = format!(" 0100007F:{:04X} 02 ", self.port);
        let tried = async {
            while !std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&asked) {
                stage.nudge().await;
            }
        };
        stage.nudged(tried).await;
    }

    /// Makes room, and gives a file to the one who has waited.
    async fn opens(&self) {
        self.listener.accept().await.unwrap();
        let (mut waiting, _) = self.listener.accept().await.unwrap();
        assert_ne!(waiting.read(&mut [0; 4096]).await.unwrap(), 0);
        let file = file_of(&[RESOURCE]).to_string();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{file}", file.len());
        waiting.write_all(answer.as_bytes()).await.unwrap();
    }
}
