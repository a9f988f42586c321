//! `quittance demo`, as a reader runs it.

use anyhow::{Context as _, Result, ensure};
use quittance_testkit::{Facilitator, RpcClient, dev_accounts};
use serde_json::Value;
use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::Instant;

/// Long enough for a machine that compiles something else; the demo takes seconds.
const DEADLINE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// A demo whose files go below a directory of its own. Asked to end when dropped, so that no Anvil outlives a failed test.
struct Demo {
    directory: TempDir,
    child: Child,
}

impl Demo {
    fn start(arguments: &[&str], log: Option<&str>) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let files = directory.path().join("files");
        fs::create_dir(&files)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_quittance"));
        command.arg("demo").args(arguments).env("TMPDIR", files).env_remove("RUST_LOG");
        if let Some(level) = log {
            command.env("RUST_LOG", level);
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(directory.path().join("stdout"))?)
            .stderr(File::create(directory.path().join("stderr"))?)
            .spawn()?;
        Ok(Self { directory, child })
    }

    fn stdout(&self) -> Result<String> {
        Ok(fs::read_to_string(self.directory.path().join("stdout"))?)
    }

    fn terminate(&self) -> Result<()> {
        let pid = self.child.id().to_string();
        ensure!(Command::new("kill").args(["-TERM", &pid]).status()?.success(), "no process {pid}");
        Ok(())
    }

    async fn wait_for_text(&mut self, text: &str) -> Result<String> {
        let end = deadline();
        loop {
            let stdout = self.stdout()?;
            if stdout.contains(text) {
                return Ok(stdout);
            }
            ensure!(self.child.try_wait()?.is_none(), "the demo has ended");
            ensure!(Instant::now() < end, "no {text:?} within {DEADLINE:?}:\n{stdout}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits for its end. It leaves no files, and prints no key.
    async fn end(mut self) -> Result<Output> {
        let end = deadline();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            ensure!(Instant::now() < end, "the demo did not end within {DEADLINE:?}");
            tokio::time::sleep(POLL).await;
        };
        let read = |name: &str| fs::read(self.directory.path().join(name));
        let output = Output { status, stdout: read("stdout")?, stderr: read("stderr")? };
        // Shown when the test fails, and kept in its report, which is searched for secrets.
        println!("{}{}", text(&output.stdout), text(&output.stderr));
        for bytes in [&output.stdout, &output.stderr] {
            for account in 0..dev_accounts::DEV_ACCOUNTS {
                let key = dev_accounts::dev_key(account);
                ensure!(!text(bytes).contains(key.trim_start_matches("0x")), "a private key is printed");
            }
        }
        let left = fs::read_dir(self.directory.path().join("files"))?.count();
        ensure!(left == 0, "{left} files are left");
        Ok(output)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.terminate();
            let _ = self.child.wait();
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "tests wait with a deadline")]
fn deadline() -> Instant {
    Instant::now() + DEADLINE
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every line the reader is promised, in order.
const STORY: &[(&str, &str)] = &[
    ("an EOA, x402 version 2", "valid success 0.010000 used ok"),
    ("an EOA, x402 version 1", "valid success 0.010000 used ok"),
    ("a contract wallet, ERC-1271", "valid success 0.010000 used ok"),
    ("a contract wallet its payment deploys, ERC-6492", "valid success 0.010000 used ok"),
    ("the payment of 1", "refused refused 0.000000 used ok"),
    ("/settle  duplicate_settlement", ""),
    ("rule 1  the high-s twin of a good signature", "refused refused 0.000000 unused ok"),
    ("invalid_exact_evm_non_canonical_signature", ""),
    ("rule 2  signed by somebody else", "refused refused 0.000000 unused ok"),
    ("invalid_exact_evm_signature", ""),
    ("rule 3  now = validAfter, not open yet", "refused refused 0.000000 unused ok"),
    ("invalid_exact_evm_payload_authorization_valid_after", ""),
    ("rule 3  now = validBefore, closed", "refused refused 0.000000 unused ok"),
    ("invalid_exact_evm_payload_authorization_valid_before", ""),
    ("rule 4  one unit more than the price", "refused refused 0.000000 unused ok"),
    ("invalid_exact_evm_payload_authorization_value_mismatch", ""),
    ("rule 5  nonce used: somebody else has sent it", "refused refused 0.000000 used ok"),
    ("invalid_exact_evm_nonce_already_used", ""),
    ("rule 5  nonce held: /verify accepted another", "refused refused 0.000000 unused ok"),
    ("invalid_exact_evm_nonce_already_used", ""),
    ("ERC-6492 factory not on the allow-list", "refused refused 0.000000 unused ok"),
    ("eip6492_factory_not_allowed", ""),
    ("payee", "0.000000 0.050000 +0.050000 5"),
    ("the facilitator sent 4 transactions", "ok"),
    ("14 of 14 as expected", ""),
];

fn assert_story(stdout: &str) {
    let mut lines = stdout.lines();
    for (title, rest) in STORY {
        let told = lines.by_ref().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            line.contains(title) && words.join(" ").ends_with(rest)
        });
        assert!(told, "no line {title:?} with {rest:?} where it belongs in:\n{stdout}");
    }
    // Every address stands there with its chain and a checksum over both (ERC-7828).
    let addresses = stdout.split("0x").skip(1).filter_map(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        (digits == 40).then(|| &rest[digits..])
    });
    assert!(
        addresses.clone().count() >= 9 && addresses.clone().all(|rest| rest.starts_with("@eip155:84532#"))
    );
    for line in stdout.lines() {
        assert!(line.chars().count() <= 100, "longer than 100 columns: {line}");
    }
}

fn assert_good(output: &Output) {
    assert!(output.status.success(), "{}", output.status);
    assert_story(&text(&output.stdout));
}

#[tokio::test]
async fn demo_runs_again() -> Result<()> {
    for _ in 0..2 {
        let output = Demo::start(&["--once"], None)?.end().await?;
        assert_good(&output);
        assert_eq!(text(&output.stderr), "", "nothing is logged unless asked for");
    }
    Ok(())
}

#[tokio::test]
async fn two_demos_run_side_by_side() -> Result<()> {
    let (first, second) = (Demo::start(&["--once"], None)?, Demo::start(&["--once"], None)?);
    let (first, second) = tokio::try_join!(first.end(), second.end())?;
    assert_good(&first);
    assert_good(&second);
    Ok(())
}

#[tokio::test]
async fn logs_go_to_stderr_when_asked_for() -> Result<()> {
    let output = Demo::start(&["--once"], Some("debug"))?.end().await?;
    assert_good(&output);
    assert!(text(&output.stderr).contains("signed"), "what was signed is logged");
    Ok(())
}

#[tokio::test]
async fn stays_up_for_the_reader_until_asked_to_end() -> Result<()> {
    let mut demo = Demo::start(&[], None)?;
    let stdout = demo.wait_for_text("A second /verify of it").await?;
    assert_story(&stdout);
    let url = between(&stdout, "Still up at ", " ")?;
    let chain = between(&stdout, "Anvil at ", ",")?;
    let body: Value = serde_json::from_slice(&fs::read(Path::new(between(&stdout, "-d '@", "'")?))?)?;
    assert!(stdout.contains(&format!("curl -sw '\\n' {url}/supported\n")));

    let client = Facilitator::new(url)?;
    let (status, supported) = client.supported().await?;
    assert_eq!((status, supported["kinds"].as_array().map(Vec::len)), (200, Some(2)));
    assert_eq!(client.verify(&body).await?.1["isValid"], true);
    assert_eq!(client.verify(&body).await?.1["invalidReason"], "invalid_exact_evm_nonce_already_used");
    let (_, settled) = client.settle(&body).await?;
    assert_eq!(settled["success"], true, "{settled}");
    let (_, again) = client.settle(&body).await?;
    assert_eq!(again["errorReason"], "duplicate_settlement");
    assert_eq!(again["transaction"], settled["transaction"]);

    demo.terminate()?;
    assert_good(&demo.end().await?);
    assert!(RpcClient::new(chain)?.chain_id().await.is_err(), "the chain is gone");
    Ok(())
}

#[tokio::test]
async fn without_anvil_it_says_what_to_do() -> Result<()> {
    let output = Command::new(env!("CARGO_BIN_EXE_quittance"))
        .args(["demo", "--once"])
        .env("QUITTANCE_ANVIL", "/nonexistent/anvil")
        .output()?;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("scripts/demo installs it"), "{}", text(&output.stderr));
    Ok(())
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Result<&'a str> {
    let (_, rest) = text.split_once(before).with_context(|| format!("no {before:?}"))?;
    Ok(rest.split_once(after).with_context(|| format!("no {after:?} after {before:?}"))?.0)
}
