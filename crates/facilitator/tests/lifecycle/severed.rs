//! A database that does what it is told, and whose answer is lost on the way back.

use crate::support::{Bench, Database, Setup, StoreKind};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Between the server and PostgreSQL: cuts the connection in which a text went by, before the answer to it comes back.
#[derive(Clone, Debug, Default)]
struct Line {
    text: Arc<Mutex<Option<Vec<u8>>>>,
    cuts: Arc<AtomicUsize>,
}

impl Line {
    /// The port it listens on.
    async fn open(&self, port: u16) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let line = self.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(line.clone().carry(client, port));
            }
        });
        own
    }

    /// Cuts the next connection in which this goes by.
    fn cut_after(&self, text: &str) {
        *self.text.lock().unwrap() = Some(text.as_bytes().to_vec());
    }

    fn goes_by(&self, bytes: &[u8]) -> bool {
        let mut text = self.text.lock().unwrap();
        let found = text.as_ref().is_some_and(|text| bytes.windows(text.len()).any(|window| window == text));
        if found {
            *text = None;
        }
        found
    }

    async fn carry(self, mut client: TcpStream, port: u16) -> Option<()> {
        let mut server = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
        loop {
            tokio::select! {
                count = client.read(&mut asked) => {
                    let bytes = asked.get(..count.ok()?).filter(|bytes| !bytes.is_empty())?;
                    server.write_all(bytes).await.ok()?;
                    if self.goes_by(bytes) {
                        // PostgreSQL answers when it has committed.
                        let _lost = server.read(&mut answered).await.ok()?;
                        self.cuts.fetch_add(1, Ordering::SeqCst);
                        return None;
                    }
                }
                count = server.read(&mut answered) => {
                    let bytes = answered.get(..count.ok()?).filter(|bytes| !bytes.is_empty())?;
                    client.write_all(bytes).await.ok()?;
                }
            }
        }
    }
}

/// A bench whose server reaches its database through the line.
async fn start() -> (Line, Bench) {
    let mut database = Database::create().await;
    let line = Line::default();
    let port = database.cluster.port();
    let own = line.open(port).await;
    database.url = database.url.replace(&format!(":{port}/"), &format!(":{own}/"));
    let bench = Setup::new(StoreKind::Postgres).database(database).block_time(1).start().await;
    (line, bench)
}

/// A reservation was made, and `/verify` never heard of it: nothing was promised, so whoever asks again may have it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promise_nobody_heard_of_is_given_up() {
    let (line, bench) = start().await;
    let payment = bench.payment().await;
    line.cut_after(&payment.nonce().to_string());
    let answer = bench.client.post("/verify", payment.body(), &[]).await.unwrap();
    assert_eq!((answer.status, answer.json["isValid"].as_bool()), (503, Some(false)), "{}", answer.text);
    assert_eq!(line.cuts.load(Ordering::SeqCst), 1);
    bench.until_status(&payment, "refused").await;

    bench.verify(&payment).await.valid();
    bench.settle(&payment).await.success_of(&payment);
    bench.assert_paid_once(&[payment]).await;
}

/// A transaction was signed and stored, and `/settle` never heard of it: it is that one that is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signature_nobody_heard_of_is_used() {
    let (line, bench) = start().await;
    let payment = bench.payment().await;
    bench.verify(&payment).await.valid();
    line.cut_after("COMMIT");
    let hash = bench.insisting(&payment).await.unwrap();
    assert_eq!(line.cuts.load(Ordering::SeqCst), 1);
    assert_eq!(bench.database().number("SELECT count(*) FROM attempts").await, 1);
    bench.assert_one_transaction_paid(&payment, hash).await;
}
