//! A PostgreSQL cluster of its own for the tests of one process: fast, fresh, gone afterwards.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt as _, chown},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use tempfile::TempDir;
use tokio::{sync::Mutex, time::Instant};

use super::unix::{end_now, exit_within, free_port, signal};
use crate::edge::env_var;

/// Names the directory with `initdb`, `postgres` and `createdb`.
const BIN_DIR: &str = "QUITTANCE_PG_BIN";
const SUPERUSER: &str = "quittance";
const TOOL_DEADLINE: Duration = Duration::from_secs(60);
const START_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// Another process may take the port between finding and using it.
const START_ATTEMPTS: u32 = 3;

/// A running cluster. Removed with everything in it when the value is dropped.
#[derive(Debug)]
pub struct PgCluster {
    bin: PathBuf,
    owner: Option<Owner>,
    port: u16,
    databases: AtomicU64,
    server: Mutex<Server>,
    // Last, so that the files go after the server.
    dir: TempDir,
}

/// The account the server runs under when the tests run as root, which PostgreSQL refuses.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: u32,
    gid: u32,
}

#[derive(Debug, Default)]
struct Server(Option<Child>);

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // Immediate shutdown: no checkpoint, but shared memory is given back, which a kill would leave behind.
            end_now(child, Some("QUIT"));
        }
    }
}

impl PgCluster {
    /// The cluster all tests of this process share; it ends with its last user.
    pub async fn shared() -> Result<Arc<Self>> {
        static SHARED: Mutex<Weak<PgCluster>> = Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(cluster) = shared.upgrade() {
            return Ok(cluster);
        }
        let cluster = Arc::new(Self::start().await?);
        *shared = Arc::downgrade(&cluster);
        Ok(cluster)
    }

    /// A cluster for one test: one that stops the database, for instance.
    pub async fn start() -> Result<Self> {
        let bin = bin_dir()?;
        let dir =
            tempfile::Builder::new().prefix("quittance-pg-").tempdir().context("temporary directory")?;
        let owner = owner()?;
        if let Some(owner) = owner {
            chown(dir.path(), Some(owner.uid), Some(owner.gid)).context("giving the cluster its owner")?;
        }
        let mut cluster =
            Self { bin, owner, port: 0, databases: AtomicU64::new(0), server: Mutex::default(), dir };
        cluster.init().await?;
        for attempt in 1..=START_ATTEMPTS {
            cluster.port = free_port()?;
            match cluster.resume().await {
                Ok(()) => break,
                Err(error) if attempt == START_ATTEMPTS => return Err(error),
                Err(_) => {}
            }
        }
        Ok(cluster)
    }

    /// An empty cluster on disk. `initdb` costs more than everything else here, so the first process keeps a copy.
    async fn init(&self) -> Result<()> {
        let kept = self.kept()?;
        if kept.is_dir() {
            return copy(&kept, &self.data()).await;
        }
        let mut initdb = self.tool("initdb");
        initdb.arg("--pgdata").arg(self.data()).args(["--username", SUPERUSER]);
        initdb.args(["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]);
        run(initdb).await?;
        // Whole or not at all: another process may be doing the same.
        let parent = kept.parent().context("place for a copy")?;
        let copying =
            tempfile::Builder::new().prefix("initdb-").tempdir_in(parent).context("place for a copy")?;
        let copied = copying.path().join("data");
        copy(&self.data(), &copied).await?;
        match fs::rename(&copied, &kept) {
            Err(error) if !kept.is_dir() => Err(error).context("keeping an empty cluster"),
            _ => Ok(()),
        }
    }

    /// Where the copy is: beside the tests' binaries, by server and by owner.
    fn kept(&self) -> Result<PathBuf> {
        let binary = std::env::current_exe().context("the tests' binary")?;
        let server = self.bin.display().to_string().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let uid = self.owner.map_or_else(|| "own".to_owned(), |owner| owner.uid.to_string());
        Ok(binary.with_file_name(format!("initdb{server}-{uid}")))
    }

    /// A fresh, empty database; its URL. It stays the same over [`PgCluster::stop`] and [`PgCluster::resume`].
    pub async fn create_database(&self) -> Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let mut createdb = self.tool("createdb");
        createdb.args(["--host", "127.0.0.1", "--port", &self.port.to_string(), "--username", SUPERUSER]);
        createdb.args(["--template", "template0", &name]);
        run(createdb).await?;
        Ok(format!("postgres://{SUPERUSER}@127.0.0.1:{}/{name}", self.port))
    }

    /// The directory of its Unix socket.
    pub fn socket_dir(&self) -> &Path {
        self.dir.path()
    }

    /// The TCP port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops the server: sessions are cut off, connections refused. Everything committed stays.
    pub async fn stop(&self) -> Result<()> {
        let mut server = self.server.lock().await;
        let Some(child) = &mut server.0 else { return Ok(()) };
        signal(child, "INT")?;
        let ended = exit_within(child, STOP_DEADLINE).await?;
        ensure!(ended.is_some(), "postgres did not stop within {STOP_DEADLINE:?}:\n{}", self.log());
        server.0 = None;
        Ok(())
    }

    /// Starts the server again on the same port with the same data, and waits until it takes connections.
    pub async fn resume(&self) -> Result<()> {
        let mut server = self.server.lock().await;
        if server.0.is_some() {
            return Ok(());
        }
        let log = File::options().create(true).append(true).open(self.log_file()).context("server log")?;
        let mut postgres = self.tool("postgres");
        postgres.arg("-D").arg(self.data()).arg("-k").arg(self.dir.path());
        postgres.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        // No disk has to survive a power cut. Commits stay synchronous: what was acknowledged survives a stop.
        for setting in ["fsync=off", "full_page_writes=off", "max_connections=200", "timezone=UTC"] {
            postgres.args(["-c", setting]);
        }
        postgres.stdout(log.try_clone().context("server log")?).stderr(log);
        // Held from here on, so that it ends with the cluster also when the start fails.
        let mut starting = Server(Some(postgres.spawn().context("postgres")?));
        self.until_ready(&mut starting).await?;
        *server = starting;
        Ok(())
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    async fn until_ready(&self, server: &mut Server) -> Result<()> {
        let end = Instant::now() + START_DEADLINE;
        let child = server.0.as_mut().ok_or_else(|| anyhow!("no server"))?;
        loop {
            if let Some(status) = child.try_wait().context("postgres")? {
                bail!("postgres ended with {status}:\n{}", self.log());
            }
            let mut isready = self.tool("pg_isready");
            isready.args(["--quiet", "--host", "127.0.0.1", "--port", &self.port.to_string()]);
            if run(isready).await.is_ok() {
                return Ok(());
            }
            ensure!(
                Instant::now() < end,
                "postgres was not ready within {START_DEADLINE:?}:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("server.log")
    }

    fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.bin.join(name));
        // The directory the tests run in may be closed to the cluster's owner.
        command.current_dir(self.dir.path()).env("LC_ALL", "C").stdin(Stdio::null());
        if let Some(owner) = self.owner {
            command.uid(owner.uid).gid(owner.gid);
        }
        command
    }
}

/// With owners and modes, without which the server does not start.
async fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut cp = Command::new("cp");
    cp.arg("-a").arg(from).arg(to);
    run(cp).await
}

async fn run(command: Command) -> Result<()> {
    let name = format!("{command:?}");
    let mut command = tokio::process::Command::from(command);
    let output = tokio::time::timeout(TOOL_DEADLINE, command.kill_on_drop(true).output()).await;
    let output = output.with_context(|| format!("{name} took longer than {TOOL_DEADLINE:?}"))?;
    let output = output.with_context(|| format!("cannot run {name}"))?;
    ensure!(
        output.status.success(),
        "{name}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn bin_dir() -> Result<PathBuf> {
    if let Some(dir) = env_var(BIN_DIR) {
        let dir = PathBuf::from(dir);
        ensure!(dir.join("initdb").is_file(), "{BIN_DIR} names {}, where no initdb is", dir.display());
        return Ok(dir);
    }
    // Debian's layout: one directory per major version.
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            entry.file_name().to_str()?.parse::<u32>().ok().map(|major| (major, entry.path()))
        })
        .map(|(major, dir)| (major, dir.join("bin")))
        .filter(|(_, dir)| dir.join("initdb").is_file())
        .max_by_key(|(major, _)| *major);
    match newest {
        Some((_, dir)) => Ok(dir),
        None => bail!("no PostgreSQL server found: run scripts/setup, or name its directory in {BIN_DIR}"),
    }
}

/// Nobody else if this is an ordinary user; as root the packaged `postgres`, else `nobody`.
fn owner() -> Result<Option<Owner>> {
    if fs::metadata("/proc/self").context("/proc")?.uid() != 0 {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd").context("/etc/passwd")?;
    let find = |name: &str| accounts.lines().find_map(|line| account(line, name));
    match find("postgres").or_else(|| find("nobody")) {
        Some(owner) => Ok(Some(owner)),
        None => bail!("PostgreSQL cannot run as root, and there is neither a user postgres nor nobody"),
    }
}

fn account(line: &str, name: &str) -> Option<Owner> {
    let mut fields = line.split(':');
    if fields.next()? != name {
        return None;
    }
    let _password = fields.next()?;
    Some(Owner { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
}
